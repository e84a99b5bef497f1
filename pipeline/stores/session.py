"""A run between two places, each a folder of this machine or a URL."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.certificate.statement import Statement
from pipeline.errors import GateError
from pipeline.shards.durable import storage_errors
from pipeline.shards.lock import FolderLock
from pipeline.stores.clean import GENERATION, RemoteClean
from pipeline.stores.place import is_url, place_of, working_copy
from pipeline.stores.raw import follow


@dataclass(frozen=True, slots=True)
class Session:
    """Where a run reads and writes on this machine, and how its result goes where it belongs."""

    raw: Path
    clean: Path
    publish: Callable[[Statement], None]


@contextmanager
def session(raw: str, clean: str) -> Iterator[Session]:
    """The folders of a run.

    A raw URL is followed by a copy, of which only what changed is fetched; a clean URL is pulled before and pushed
    after. Both copies lie below the user's cache folder, and serve the next run.

    Raises:
        InputError, StorageError: a store cannot be read or written.
        BusyError: another run uses the same copy, or published meanwhile.
    """
    copy = working_copy(f"{raw}\n{clean}", "")
    if not is_url(raw) and not is_url(clean):
        yield Session(Path(raw), Path(clean), lambda statement: None)
        return
    with storage_errors(copy):
        copy.mkdir(parents=True, exist_ok=True)
    with FolderLock(copy):
        folder = follow(place_of(raw), copy / "raw") if is_url(raw) else Path(raw)
        if not is_url(clean):
            yield Session(folder, Path(clean), lambda statement: None)
            return
        remote = RemoteClean(place_of(clean), copy / "clean")
        remote.pull()
        try:
            yield Session(folder, remote.copy, remote.push)
        except GateError:
            remote.keep_refused()
            raise


@contextmanager
def fetched(clean: str, only: tuple[str, ...] = ("",)) -> Iterator[Path]:
    """An output folder as it lies in its store, in a folder that is gone afterwards; a folder of this machine is given
    as it is. ``only``: how the names of the files begin that are fetched."""
    if not is_url(clean):
        yield Path(clean)
        return
    place = place_of(clean)
    with tempfile.TemporaryDirectory(prefix="cleanroom-") as name:
        folder = Path(name) / "clean"
        for file in place.list():
            if file.startswith(only) and not GENERATION.fullmatch(file):
                place.fetch(file, folder / file)
        yield folder
