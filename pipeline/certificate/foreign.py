"""Files in an output folder that its certificate does not speak of."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from pathlib import Path

from pipeline.certificate.failure import Code, Failure, failure
from pipeline.certificate.folder import PREVIOUS, REFUSED, STAGING

OURS = (".gitignore", ".dvcignore")
"""Names that say how the folder is kept and hold no data."""


def foreign_files(clean: Path, named: Container[str]) -> Iterator[tuple[bool, Failure]]:
    """Every file that is not named, each with whether it is a failure: a file that a loader could take for data is,
    any other is a note.

    ``cache-*.arrow`` beside shards is what ``datasets`` trusts as the result of an earlier ``.map``.
    """
    for name in walk(clean):
        top = name.split("/", 1)[0]
        if name in named or top == PREVIOUS or name in OURS:
            continue
        if top in (STAGING, REFUSED):
            continue
        is_data = "/" in name or name.endswith((".arrow", ".parquet", ".json", ".jsonl", ".csv"))
        if name.endswith(".arrow"):
            yield True, failure(Code.FOREIGN_SHARD, name, "a shard that the certificate does not name")
        elif is_data:
            yield True, failure(Code.FOREIGN_FILE, name, "a file that the certificate does not name")
        else:
            yield False, failure(Code.FOREIGN_FILE, name, "a file that the certificate does not name")
    if any(walk(clean / STAGING)):
        yield False, failure(Code.RUN_UNFINISHED, STAGING, "shards of a run that did not finish, or goes on")
    if any(walk(clean / REFUSED)):
        yield False, failure(Code.RUN_REFUSED, REFUSED, "the quarantine of a run that was refused")


def walk(folder: Path) -> Iterator[str]:
    """Every file below a folder by its name relative to it, in order; links to files count as files."""
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield os.path.relpath(Path(place) / name, folder)
        # A link to a folder is not walked into, but must be seen.
        yield from (
            os.path.relpath(Path(place) / name, folder)
            for name in folders
            if (Path(place) / name).is_symlink()
        )
