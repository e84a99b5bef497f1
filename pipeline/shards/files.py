"""Files of the output folder: the names and digests of shards, atomic writes, and the lock of the one writer."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline.errors import BusyError, StorageError
from pipeline.shards.statistics import ColumnStatistics, from_json

PART_NAME = re.compile(r"part-[0-9a-f]{20}\.arrow")
"""Every shard is named after the first 20 hexadecimal digits of its sha256."""
QUARANTINE = "quarantine"
SHARD_FOLDER = re.compile(r"quarantine/\w+|\w+(\.\w+)*/data")
"""Every folder of shards, relative to the output folder. A forged certificate cannot lead to another folder."""


@dataclass(frozen=True, slots=True)
class Part:
    """A shard: an uncompressed Arrow IPC stream, named after its content.

    Attributes:
        name: ``part-<first 20 digits of sha256>.arrow``.
        sha256: of the whole file, hexadecimal.
        bytes, rows: size of the file in bytes and number of its rows.
        statistics: by column; "column[]" for the values of a list, "column[].member" for members of structs.
        mtime_ns: mtime of the file when it was hashed; 0 except in the run that wrote it.
    """

    name: str
    sha256: str
    bytes: int
    rows: int
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    mtime_ns: int = field(default=0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The part as plain JSON values."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "bytes": self.bytes,
            "rows": self.rows,
            "statistics": {name: column.to_json() for name, column in sorted(self.statistics.items())},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Part:
        """The part of plain JSON values; raises ``KeyError``, ``TypeError`` or ``ValueError`` for another form."""
        name, sha256 = str(value["name"]), str(value["sha256"])
        if name != part_name(sha256) or not PART_NAME.fullmatch(name):
            raise ValueError(f"part name {name!r} is not made from its digest")
        statistics = {str(k): from_json(v) for k, v in value["statistics"].items()}
        return cls(name, sha256, int(value["bytes"]), int(value["rows"]), statistics)


def part_name(sha256: str) -> str:
    """File name of the shard with this sha256."""
    return f"part-{sha256[:20]}.arrow"


def data_folder(dataset: str) -> str:
    """Folder of the certified shards of a data set, relative to the output folder. It holds shards only."""
    return f"{dataset}/data"


def quarantine_folder(dataset: str) -> str:
    """Folder of the quarantine shards of a schema, relative to the output folder."""
    return f"{QUARANTINE}/{dataset}"


def file_sha256(path: Path) -> str:
    """The sha256 of a file, hexadecimal.

    Hashing after the write is faster than hashing during it, because the file is in the page cache.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Atomic writes: write a temporary file, sync, rename.


_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG}


@contextmanager
def storage_errors(where: Path) -> Iterator[None]:
    """Raise ``StorageError`` (exit 74) for a full disk or a read-only folder; other errors pass through."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE:
            raise
        raise storage_error(error, where) from error


def storage_error(error: OSError, where: Path) -> StorageError:
    """The ``StorageError`` of an error of the operating system on writing."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return StorageError(
        "no space left to write" if full else "cannot be written",
        where=str(where),
        found=os.strerror(error.errno or 0),
        remedy="free some space and run again; nothing published before is lost"
        if full
        else "make the folder writable and run again; nothing published before is lost",
    )


def sync_file(path: Path) -> None:
    """Force the bytes of a file to the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Force the names of a folder to the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the answer of a file system that cannot sync (some FUSE mounts)
            raise
    finally:
        os.close(handle)


def write_atomic(path: Path, content: bytes, *, fsync: bool = True, staging: Path | None = None) -> bool:
    """Write a file completely or not at all; a file with this content already stays as it is.

    ``staging`` is a folder on the same file system for the temporary file, which a killed process leaves there;
    default: the folder of the file. Returns whether the file was written. A link is replaced, never followed.
    """
    if _has_content(path, content):
        return False
    temporary = (staging or path.parent) / f".{path.name}.{os.getpid()}.tmp"
    try:
        temporary.write_bytes(content)
        if fsync:
            sync_file(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if fsync:
        sync_folder(path.parent)
    return True


def _has_content(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


class FolderLock:
    """An exclusive ``flock`` on a folder: one writer at a time. It needs no lock file and ends with its process.

    Raises:
        BusyError: another process holds the lock.
        StorageError: the file system has no locks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle: int | None = None

    def __enter__(self) -> FolderLock:
        try:
            handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BusyError(
                "was just removed by another run", where=str(self._folder), remedy="run again"
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same_folder(self._folder, handle):
                raise BlockingIOError(errno.EWOULDBLOCK, "removed by the run that made it")
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise BusyError(
                    "another run is writing here",
                    where=str(self._folder),
                    remedy="wait for it to end and run again; nothing was changed",
                ) from None
            raise StorageError(
                "the file system knows no locks",
                where=str(self._folder),
                found=os.strerror(error.errno or 0),
                remedy="put the output folder on a file system with locks (flock)",
            ) from error
        self._handle = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _is_same_folder(folder: Path, handle: int) -> bool:
    """Whether the locked folder still has its name: a run without a result removes the folder that it made."""
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False
