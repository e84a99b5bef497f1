"""Files that are whole or not there: write beside, sync, rename."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import StorageError

_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG}


@contextmanager
def storage_errors(where: Path) -> Iterator[None]:
    """Name a full disk or a read-only folder as such (``StorageError``, exit 74); other errors pass through."""
    try:
        yield
    except OSError as error:
        if error.errno not in _STORAGE:
            raise
        raise storage_error(error, where) from error


def storage_error(error: OSError, where: Path) -> StorageError:
    """The operating system's refusal to write, in words."""
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
    """Have the operating system put a file's bytes on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Have the operating system put a folder's names on the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync (some FUSE mounts) says so this way
            raise
    finally:
        os.close(handle)


def write_atomic(path: Path, content: bytes, *, fsync: bool = True, staging: Path | None = None) -> bool:
    """Give a file this content, all or nothing; a file that has it already is not touched.

    ``staging`` is a folder on the same file system where it is made ready, and where a killed process leaves it;
    default: beside the file. Returns whether it was written. A link is replaced, never written through.
    """
    if _holds(path, content):
        return False
    beside = (staging or path.parent) / f".{path.name}.{os.getpid()}.tmp"
    try:
        beside.write_bytes(content)
        if fsync:
            sync_file(beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if fsync:
        sync_folder(path.parent)
    return True


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False
