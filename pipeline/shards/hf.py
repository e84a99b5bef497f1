"""The pointer files through which ``datasets.load_from_disk(clean)`` finds the shards.

Tested with datasets 2.21, 3.6 and 5.2: ``state.json`` needs all seven keys, and ``dataset_info.json`` must be an empty
object (a full feature list breaks older versions, and the Arrow schema holds the same information).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pipeline.shards.files import Part

DICTIONARY = "dataset_dict.json"
STATE, INFO = "state.json", "dataset_info.json"


def pointers(datasets: Mapping[str, Sequence[Part]]) -> dict[str, bytes]:
    """Content of every pointer file by its name relative to the output folder, in the order of writing.

    ``datasets`` holds the shards of each data set in order; the name of a split is that of its data set. The
    fingerprint depends on the content: with a constant one, ``.map`` would return rows of an older run from its cache.
    """
    files: dict[str, bytes] = {}
    for name, parts in sorted(datasets.items()):
        state: dict[str, object] = {
            "_data_files": [{"filename": f"data/{part.name}"} for part in parts],
            "_fingerprint": _fingerprint(name, parts),
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": name,
        }
        files[f"{name}/{STATE}"] = _json(state)
        files[f"{name}/{INFO}"] = _json({})
    files[DICTIONARY] = _json({"splits": sorted(datasets)})
    return files


def _fingerprint(name: str, parts: Sequence[Part]) -> str:
    digests = "\n".join([name, *(part.sha256 for part in parts)])
    return hashlib.sha256(digests.encode()).hexdigest()[:16]


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, indent=2).encode("ascii") + b"\n"
