"""One writer at a time: an advisory lock on the output folder itself, which dies with its process."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType

from pipeline.errors import BusyError, StorageError


class FolderLock:
    """An exclusive ``flock`` on a folder. No lock file is left behind, and a killed process holds nothing.

    Raises:
        BusyError: another process holds it.
        StorageError: the file system knows no locks.
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
            if not _is_still(self._folder, handle):
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


def _is_still(folder: Path, handle: int) -> bool:
    """Whether the locked folder is the one of that name: a run that brought nothing removes the folder it made."""
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False
