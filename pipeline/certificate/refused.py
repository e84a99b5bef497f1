"""The quarantine of a refused run, kept in ``.refused/`` beside the last good state until a run is published."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.certificate.folder import REFUSED
from pipeline.shards.part import PART_NAME, QUARANTINE

INDEX = f"{REFUSED}/quarantine.json"
"""Lists the shards of each schema in the order of their records; written last."""


def index(shards: dict[str, list[str]]) -> bytes:
    """The content of ``INDEX``: for each schema the names of its quarantine shards, in order."""
    return json.dumps(shards, indent=2).encode() + b"\n"


def refused_parts(clean: Path) -> dict[str, list[Path]] | None:
    """The quarantine shards of each schema, in order; None where no run was refused since the last one published."""
    try:
        value = json.loads((clean / INDEX).read_bytes())
        folder = clean / REFUSED / QUARANTINE
        return {
            str(schema): [folder / Path(schema).name / name for name in names if PART_NAME.fullmatch(name)]
            for schema, names in value.items()
        }
    except (OSError, ValueError, AttributeError, TypeError):
        return None
