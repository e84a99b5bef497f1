"""A run between two places, each a folder of this machine or a URL: raw files fetched, the output published
back.

A store has no locks and no rename. What makes a commit whole is one file that can be put only where there is none:
``.generations/<n>.json``, the certificate of generation *n*. Of two runs that began at generation *n - 1*, one gets
to put it; the other is busy (exit 75), and has changed nothing that a certificate names.

Order: shards; the generation; pointers; ``certificate.json``; then the shards of the generation before move to
``.previous/``, and those that nobody names go, once they are a day old. A run that finds ``certificate.json`` behind
the last generation (killed between the two) puts it right.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.certificate.folder import INDEX, PREVIOUS, REFUSED, shards_below
from pipeline.certificate.sign import ENVELOPE
from pipeline.certificate.statement import CERTIFICATE, Statement, datasets_of, parse
from pipeline.errors import BusyError, GateError, InputError
from pipeline.shards.files import PART_NAME, PLACE, FolderLock, storage_errors, write_atomic
from pipeline.shards.hf import pointers
from pipeline.stores.remote import Place, is_url, place_of, working_copy

# A raw folder in a store: a copy on this machine that follows it, fetching only what changed.


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


# An output folder in a store: fetched to a copy on this machine, run there, published back.


GENERATION = re.compile(r"\.generations/(\d{8})\.json")
GRACE_SECONDS = 86_400
"""How old a shard that nobody names must be before it goes: a run elsewhere may be about to name it."""


class RemoteClean:
    """An output folder in a store, and the copy of it that a run works in.

    Args:
        place: the folder in the store.
        copy: the folder on this machine.
    """

    def __init__(self, place: Place, copy: Path) -> None:
        self.copy = copy
        self._place = place
        self._number = 0
        self._held: Statement | None = None

    def pull(self) -> None:
        """Bring the copy to the last generation: its certificate, its pointers, and its shards that are missing.

        Raises ``InputError`` where the store cannot be read, ``StorageError`` where the copy cannot be written.
        """
        listed = self._place.list()
        content = self._last_certificate(listed)
        self._held = _parsed(content)
        with storage_errors(self.copy):
            self.copy.mkdir(parents=True, exist_ok=True)
            if self._held is None or content is None:
                (self.copy / CERTIFICATE).unlink(missing_ok=True)
                return
            files = self._held.files
            for name in set(shards_below(self.copy)) - set(files):
                (self.copy / name).unlink()
            for name, part in files.items():
                local = self.copy / name
                if name in listed and not (local.is_file() and local.stat().st_size == part.bytes):
                    self._place.fetch(name, local)
            for name, pointer in pointers(datasets_of(self._held)).items():
                (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self.copy / name, pointer, fsync=False)
            if ENVELOPE in listed:
                self._place.fetch(ENVELOPE, self.copy / ENVELOPE)
            write_atomic(self.copy / CERTIFICATE, content, fsync=False)

    def push(self, statement: Statement) -> None:
        """Publish what a run left in the copy.

        Raises ``BusyError`` where another run published since ``pull``, ``StorageError`` where the store refuses.
        """
        listed = self._place.list()
        content, files = statement.to_bytes(), statement.files
        before = self._held.files if self._held else {}
        for name, part in files.items():
            # What the last generation does not name may be about to go: it is sent again.
            if name not in before or listed.get(name, {}).get("size") != part.bytes:
                self._place.send(self.copy / name, name)
        if self._held is None or self._held.to_bytes() != content:
            self._number += 1
            if not self._place.create(f".generations/{self._number:08}.json", content):
                raise BusyError(
                    "another run published meanwhile",
                    where=self._place.url,
                    remedy="run again: it builds on what the other published",
                )
        envelope = self.copy / ENVELOPE
        small = {
            **pointers(datasets_of(statement)),
            **({ENVELOPE: envelope.read_bytes()} if envelope.exists() else {}),
            CERTIFICATE: content,
        }
        for name, value in small.items():
            if self._place.read(name) != value:
                self._place.write(name, value)
        self._collect(listed, {*files, *small}, before)

    def keep_refused(self) -> None:
        """Put the quarantine of a refused run beside the last good state, where `quarantine show` finds it."""
        kept = {
            str(file.relative_to(self.copy)): file
            for file in (self.copy / REFUSED).rglob("*")
            if file.is_file()
        }
        for name in self._place.list():
            if name.startswith(f"{REFUSED}/") and name not in kept:
                self._place.remove(name)
        for name in sorted(kept, key=lambda name: (name == INDEX, name)):
            self._place.send(kept[name], name)

    def _last_certificate(self, listed: Mapping[str, Any]) -> bytes | None:
        numbers = [int(found[1]) for name in listed if (found := GENERATION.fullmatch(name))]
        self._number = max(numbers, default=0)
        name = f".generations/{self._number:08}.json" if numbers else CERTIFICATE
        return self._place.read(name)

    def _collect(self, listed: Mapping[str, Any], named: set[str], before: Collection[str]) -> None:
        """Set the shards of the generation before aside, remove what older ones left. Nothing that is not named like
        a shard, a pointer or a generation is touched."""
        for name, facts in listed.items():
            generation = GENERATION.fullmatch(name)
            if generation and int(generation[1]) < self._number - 1:
                self._place.remove(name)
            elif name in named:
                continue
            elif name.startswith(f"{REFUSED}/"):
                self._place.remove(name)
            elif name in before:
                self._place.move(name, f"{PREVIOUS}/{name}")
            elif self._is_left_over(name, facts):
                self._place.remove(name)

    def _is_left_over(self, name: str, facts: Mapping[str, Any]) -> bool:
        """Whether a file is a shard that nobody names, and old enough that nobody is about to."""
        shard = name.removeprefix(f"{PREVIOUS}/")
        return _is_shard(shard) and self._place.age(facts) > GRACE_SECONDS

    def _pointers_before(self) -> Collection[str]:
        return pointers(datasets_of(self._held)) if self._held else {}


def _is_shard(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return PLACE.fullmatch(folder) is not None and PART_NAME.fullmatch(file) is not None


def _parsed(content: bytes | None) -> Statement | None:
    try:
        return None if content is None else parse(content)
    except ValueError:
        return None


# A run between two places, each a folder of this machine or a URL.


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
