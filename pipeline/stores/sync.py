"""Runs with a remote raw folder or a remote output folder: fetch the raw files, publish the output.

A run works on local copies. ``mirror`` brings the copy of a raw folder up to date; ``RemoteOutput`` fetches and
publishes an output folder; ``session`` gives a run both folders.

A store has no locks and no atomic rename. A publication becomes valid through one file that can be created only once:
``.generations/<n>.json``, the certificate of generation *n*. Of two runs that start from generation *n - 1*, one
creates it; the other ends as busy (exit 75) and has changed nothing that a certificate names.

``RemoteOutput.push`` writes in this order: shards, generation, pointers, ``certificate.json``. Then it moves the shards
of the previous generation to ``.previous/`` and removes shards that no certificate names, once they are a day old. When
a run is killed between generation and ``certificate.json``, the next run writes the missing files.
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
from pipeline.shards.files import PART_NAME, SHARD_FOLDER, FolderLock, storage_errors, write_atomic
from pipeline.shards.hf import pointers
from pipeline.stores.remote import RemoteFolder, is_url, open_remote, working_copy

VERSIONS = ".versions.json"
"""File of a local copy that holds the version of each fetched file."""


def mirror(remote: RemoteFolder, copy: Path) -> Path:
    """Make a local copy of a remote raw folder, fetching only files that changed; returns the folder of the files.

    Raises:
        InputError: the folder holds no file, or the store cannot be read.
        StorageError: the copy cannot be written.
    """
    listed = remote.list()
    if not listed:
        raise InputError("the raw folder holds no file", where=remote.url, remedy="check the address")
    files = copy / "files"
    known = _read_versions(copy / VERSIONS)
    wanted = {name: remote.version(info) for name, info in listed.items()}
    with storage_errors(copy):
        files.mkdir(parents=True, exist_ok=True)
        for path in sorted(path for path in files.rglob("*") if path.is_file()):
            name = path.relative_to(files).as_posix()
            if known.get(name) != wanted.get(name):
                known.pop(name, None)
                path.unlink()
        _write_versions(copy, known)
        for name, version in wanted.items():
            if name not in known or not (files / name).is_file():
                remote.fetch(name, files / name)
                known[name] = version
        _write_versions(copy, {name: known[name] for name in wanted})
    return files


def _read_versions(path: Path) -> dict[str, str]:
    try:
        value = json.loads(path.read_text())
        return {str(name): str(version) for name, version in value.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _write_versions(copy: Path, versions: dict[str, str]) -> None:
    write_atomic(copy / VERSIONS, json.dumps(versions, sort_keys=True).encode(), fsync=False)


GENERATION = re.compile(r"\.generations/(\d{8})\.json")
GRACE_SECONDS = 86_400
"""Age in seconds at which a shard without a certificate is removed: another run may be about to name a younger one."""


class RemoteOutput:
    """An output folder in a store, and the local copy in which a run works.

    Args:
        remote: the folder in the store.
        copy: the local folder.
    """

    def __init__(self, remote: RemoteFolder, copy: Path) -> None:
        self.copy = copy
        self._remote = remote
        self._number = 0
        self._statement: Statement | None = None

    def pull(self) -> None:
        """Fetch the last generation: its certificate, its pointers, and its missing shards.

        Raises ``InputError`` where the store cannot be read, ``StorageError`` where the copy cannot be written.
        """
        listed = self._remote.list()
        content = self._last_certificate(listed)
        self._statement = _parse_or_none(content)
        with storage_errors(self.copy):
            self.copy.mkdir(parents=True, exist_ok=True)
            if self._statement is None or content is None:
                (self.copy / CERTIFICATE).unlink(missing_ok=True)
                return
            files = self._statement.files
            for name in set(shards_below(self.copy)) - set(files):
                (self.copy / name).unlink()
            for name, part in files.items():
                local = self.copy / name
                if name in listed and not (local.is_file() and local.stat().st_size == part.bytes):
                    self._remote.fetch(name, local)
            for name, pointer in pointers(datasets_of(self._statement)).items():
                (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self.copy / name, pointer, fsync=False)
            if ENVELOPE in listed:
                self._remote.fetch(ENVELOPE, self.copy / ENVELOPE)
            write_atomic(self.copy / CERTIFICATE, content, fsync=False)

    def push(self, statement: Statement) -> None:
        """Publish the copy with the statement of a run.

        Raises ``BusyError`` where another run published since ``pull``, ``StorageError`` where the store refuses.
        """
        listed = self._remote.list()
        content, files = statement.to_bytes(), statement.files
        before = self._statement.files if self._statement else {}
        for name, part in files.items():
            # Another run may be about to remove a shard that the last generation does not name: send it again.
            if name not in before or listed.get(name, {}).get("size") != part.bytes:
                self._remote.send(self.copy / name, name)
        if self._statement is None or self._statement.to_bytes() != content:
            self._number += 1
            if not self._remote.create(f".generations/{self._number:08}.json", content):
                raise BusyError(
                    "another run published meanwhile",
                    where=self._remote.url,
                    remedy="run again: it builds on what the other published",
                )
        envelope = self.copy / ENVELOPE
        small = {
            **pointers(datasets_of(statement)),
            **({ENVELOPE: envelope.read_bytes()} if envelope.exists() else {}),
            CERTIFICATE: content,
        }
        for name, value in small.items():
            if self._remote.read(name) != value:
                self._remote.write(name, value)
        self._collect_garbage(listed, {*files, *small}, before)

    def keep_refused(self) -> None:
        """Publish the quarantine of a refused run beside the last published state, for `quarantine show`."""
        kept = {
            str(file.relative_to(self.copy)): file
            for file in (self.copy / REFUSED).rglob("*")
            if file.is_file()
        }
        for name in self._remote.list():
            if name.startswith(f"{REFUSED}/") and name not in kept:
                self._remote.remove(name)
        for name in sorted(kept, key=lambda name: (name == INDEX, name)):
            self._remote.send(kept[name], name)

    def _last_certificate(self, listed: Mapping[str, Any]) -> bytes | None:
        numbers = [int(found[1]) for name in listed if (found := GENERATION.fullmatch(name))]
        self._number = max(numbers, default=0)
        name = f".generations/{self._number:08}.json" if numbers else CERTIFICATE
        return self._remote.read(name)

    def _collect_garbage(self, listed: Mapping[str, Any], named: set[str], before: Collection[str]) -> None:
        """Move the shards of the previous generation aside and remove those of older ones. Files without the name of a
        shard or a generation stay as they are."""
        for name, info in listed.items():
            generation = GENERATION.fullmatch(name)
            if generation and int(generation[1]) < self._number - 1:
                self._remote.remove(name)
            elif name in named:
                continue
            elif name.startswith(f"{REFUSED}/"):
                self._remote.remove(name)
            elif name in before:
                self._remote.move(name, f"{PREVIOUS}/{name}")
            elif self._is_garbage(name, info):
                self._remote.remove(name)

    def _is_garbage(self, name: str, info: Mapping[str, Any]) -> bool:
        """Whether a file, named by no certificate, is a shard and old enough that no run is about to name it."""
        shard = name.removeprefix(f"{PREVIOUS}/")
        return _is_shard(shard) and self._remote.age(info) > GRACE_SECONDS


def _is_shard(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return SHARD_FOLDER.fullmatch(folder) is not None and PART_NAME.fullmatch(file) is not None


def _parse_or_none(content: bytes | None) -> Statement | None:
    try:
        return None if content is None else parse(content)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Session:
    """The local folders of a run, and the function that publishes its statement to the store."""

    raw: Path
    clean: Path
    publish: Callable[[Statement], None]


@contextmanager
def session(raw: str, clean: str) -> Iterator[Session]:
    """The local folders of a run, for arguments that are local folders or URLs.

    A raw URL gets a local copy that fetches only changed files; an output URL is pulled before the run and pushed
    after it. Both copies lie below the user's cache folder and serve the next run.

    Raises:
        InputError, StorageError: a store cannot be read or written.
        BusyError: another run uses the same copy, or has published meanwhile.
    """
    copy = working_copy(f"{raw}\n{clean}", "")
    if not is_url(raw) and not is_url(clean):
        yield Session(Path(raw), Path(clean), lambda statement: None)
        return
    with storage_errors(copy):
        copy.mkdir(parents=True, exist_ok=True)
    with FolderLock(copy):
        folder = mirror(open_remote(raw), copy / "raw") if is_url(raw) else Path(raw)
        if not is_url(clean):
            yield Session(folder, Path(clean), lambda statement: None)
            return
        remote = RemoteOutput(open_remote(clean), copy / "clean")
        remote.pull()
        try:
            yield Session(folder, remote.copy, remote.push)
        except GateError:
            remote.keep_refused()
            raise


@contextmanager
def fetched(clean: str, only: tuple[str, ...] = ("",)) -> Iterator[Path]:
    """A local copy of an output folder, removed at the end; a local folder is given as it is.

    ``only`` holds the prefixes of the names of the files to fetch.
    """
    if not is_url(clean):
        yield Path(clean)
        return
    remote = open_remote(clean)
    with tempfile.TemporaryDirectory(prefix="cleanroom-") as name:
        folder = Path(name) / "clean"
        for file in remote.list():
            if file.startswith(only) and not GENERATION.fullmatch(file):
                remote.fetch(file, folder / file)
        yield folder
