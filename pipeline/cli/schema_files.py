"""Which schema files a command uses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import SchemaError

DEFAULT = Path("schemas")


def schema_files(named: Sequence[Path] | None, folder: Path | None) -> tuple[Path, ...]:
    """The files named, and those of a folder; without either, those of ``schemas/``.

    Raises:
        SchemaError: the folder is not there or holds no schema.
    """
    files = list(named or ())
    if folder is not None or not files:
        where = folder if folder is not None else DEFAULT
        inside = sorted([*where.glob("*.yaml"), *where.glob("*.yml")]) if where.is_dir() else []
        if not inside:
            raise SchemaError(
                "no schema file in this folder" if where.is_dir() else "the schema folder is not there",
                where=str(where),
                expected="at least one .yaml file",
                remedy="name a file with --schema or a folder with --schemas",
            )
        files += inside
    return tuple(dict.fromkeys(files))
