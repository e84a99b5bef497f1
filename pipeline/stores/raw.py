"""A raw folder in a store: a copy on this machine that follows it, fetching only what changed."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.errors import InputError
from pipeline.shards.durable import storage_errors, write_atomic
from pipeline.stores.place import Place

VERSIONS = ".versions.json"


def follow(place: Place, copy: Path) -> Path:
    """Make the copy hold exactly the files of the store; returns the folder of the files.

    Raises:
        InputError: there is no file, or the store cannot be read.
        StorageError: the copy cannot be written.
    """
    listed = place.list()
    if not listed:
        raise InputError("the raw folder holds no file", where=place.url, remedy="check the address")
    files = copy / "files"
    known = _known(copy / VERSIONS)
    wanted = {name: place.version(name, facts) for name, facts in listed.items()}
    with storage_errors(copy):
        files.mkdir(parents=True, exist_ok=True)
        for path in sorted(path for path in files.rglob("*") if path.is_file()):
            name = path.relative_to(files).as_posix()
            if known.get(name) != wanted.get(name):
                known.pop(name, None)
                path.unlink()
        _save(copy, known)
        for name, version in wanted.items():
            if name not in known or not (files / name).is_file():
                place.fetch(name, files / name)
                known[name] = version
        _save(copy, {name: known[name] for name in wanted})
    return files


def _known(path: Path) -> dict[str, str]:
    try:
        value = json.loads(path.read_text())
        return {str(name): str(version) for name, version in value.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _save(copy: Path, known: dict[str, str]) -> None:
    write_atomic(copy / VERSIONS, json.dumps(known, sort_keys=True).encode(), fsync=False)
