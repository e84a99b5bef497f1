"""The cache of a user: small JSON files that one run writes for the next, and the digests of files.

The cache lies in ``$XDG_CACHE_HOME/cleanroom`` or ``~/.cache/cleanroom``, never beside the data. The program reads a
cache file only when it belongs to this user, no other user may write it, and it starts with the digest of its own
content. A damaged or truncated file counts as no file. A process that writes files as this user can also change the
program, and the cache does not protect against that. A lost cache costs time, never a result.

``HashCache`` identifies a file by (device, inode, size, mtime, ctime): an edit that restores the mtime still changes
the ctime.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipeline.shards.files import file_sha256


class CacheFile:
    """One cache file about one folder.

    Args:
        subject: the folder that the cached values describe; each folder has its own cache file.
        suffix: distinguishes several cache files about one folder.
        cache: the folder of the cache files; default: the user's cache folder.
    """

    def __init__(self, subject: Path, suffix: str = "", cache: Path | None = None) -> None:
        key = hashlib.sha256(os.fsencode(subject.resolve())).hexdigest()[:32]
        self.path = (cache or cache_folder()) / f"{key}{suffix}.json"

    def read(self) -> Any:
        """The cached value, as plain JSON values; None where no trusted file exists."""
        content = self.read_bytes()
        try:
            return None if content is None else json.loads(content)
        except (ValueError, RecursionError):
            return None

    def read_bytes(self) -> bytes | None:
        """The cached bytes; None where no trusted file exists."""
        try:
            with self.path.open("rb") as file:
                info = os.fstat(file.fileno())
                if info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    return None
                digest, _, content = file.read().partition(b"\n")
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest().encode() == digest else None

    def write(self, value: Any) -> None:
        """Write plain JSON values for the next run."""
        self.write_bytes(json.dumps(value, separators=(",", ":")).encode())

    def write_bytes(self, content: bytes) -> None:
        """Write bytes for the next run. A write error is ignored: the next run only takes longer."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
            try:
                handle = os.open(
                    temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
                )
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
                temporary.replace(self.path)
            except OSError:
                temporary.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the cache file."""
        with suppress(OSError):
            self.path.unlink()


def cache_folder() -> Path:
    """The folder of all cache files of this program, below the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "cleanroom"


RACY_NS = 2_000_000_000
"""Shortest age of a file's last change, in nanoseconds, for its stamp to be trusted. Two edits within one tick of the
file system's clock leave the same times."""

TICK_NS = 50_000_000
"""The same, in nanoseconds, for a file that this run wrote on a file system whose times show fractions of a
millisecond: five times the longest tick of a kernel's clock (10 ms)."""

SHA256 = re.compile(r"[0-9a-f]{64}")
Stamp = tuple[int, int, int, int, int]


class HashCache:
    """The digests of the files of one folder: a file that did not change is not hashed again.

    Args:
        folder: the folder.
        cache: the folder of the cache files; default: the user's cache folder.
    """

    def __init__(self, folder: Path, cache: Path | None = None) -> None:
        self._folder = os.fspath(folder)
        self._file = CacheFile(folder, cache=cache)
        self._known = _parse_entries(self._file.read())
        self._fresh: dict[str, tuple[Stamp, str]] = {}

    def knows(self, name: str, sha256: str) -> bool:
        """Whether the cache holds this digest for the file and the file did not change since."""
        return self.recall(name) == sha256

    def recall(self, name: str) -> str | None:
        """The cached digest of a file; None when there is none or the file changed since."""
        known = self._known.get(name)
        if known is None or known[0] != file_stamp(f"{self._folder}/{name}"):
            return None
        self._fresh[name] = known
        return known[1]

    def digest(self, name: str) -> str:
        """The digest of a file, hashed only when the cache does not hold it; raises ``OSError``."""
        if (known := self.recall(name)) is not None:
            return known
        before = self.stamp(name)
        sha256 = file_sha256(Path(self._folder, name))
        self.learn(name, sha256, before)
        return sha256

    def have(self, digests: Mapping[str, str]) -> bool:
        """Whether each of these files has the given digest; "" stands for a file that does not exist."""
        return all(self._digest_or_empty(name) == digest for name, digest in digests.items())

    def _digest_or_empty(self, name: str) -> str | None:
        """The digest of a file, "" where it does not exist, None where it cannot be read."""
        known = self.recall(name)
        try:
            return known or (self.digest(name) if Path(self._folder, name).is_file() else "")
        except OSError:
            return None

    def stamp(self, name: str) -> Stamp | None:
        """The stamp of a file, None where it changed just now; take it before hashing and pass it to ``learn``."""
        found = file_stamp(f"{self._folder}/{name}")
        return found if found is not None and is_settled(found) else None

    def learn(self, name: str, sha256: str, before: Stamp | None) -> None:
        """Record the digest of a file, unless the file changed during the hashing or just before it."""
        if before is not None and before == file_stamp(f"{self._folder}/{name}"):
            self._fresh[name] = before, sha256

    def learn_written(self, name: str, sha256: str, mtime_ns: int) -> None:
        """Record the digest of a file that this run wrote, hashed at this mtime (nanoseconds), and then moved.

        Nothing is recorded when the file changed after the hashing, when it moved just now, or when the file system's
        clock is too coarse to show a change.
        """
        found = file_stamp(f"{self._folder}/{name}")
        if found is None or not mtime_ns or found[3] != mtime_ns or not found[4] % 1_000_000:
            return
        if max(found[3:]) < time.time_ns() - TICK_NS:
            self._fresh[name] = found, sha256

    def save(self) -> None:
        """Write the entries of this run for the next one. A write error is ignored."""
        if self._fresh != self._known:
            self._file.write(self._fresh)


def file_stamp(path: str | Path) -> Stamp | None:
    """(device, inode, size, mtime, ctime) of a file, times in nanoseconds; None where it does not exist."""
    try:
        info = os.stat(path)  # noqa: PTH116 - called for every file of a run, and faster than Path.stat
    except (OSError, ValueError):
        return None
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def is_settled(stamp: Stamp) -> bool:
    """Whether the file changed long enough ago for its stamp to be trusted."""
    return max(stamp[3:]) < time.time_ns() - RACY_NS


def _parse_entries(value: object) -> dict[str, tuple[Stamp, str]]:
    """The entries of an earlier run; none where the value has another form."""
    if not isinstance(value, dict):
        return {}
    try:
        found = {name: ((d, i, s, m, c), digest) for name, ((d, i, s, m, c), digest) in value.items()}
        return found if all(SHA256.fullmatch(digest) for _, digest in found.values()) else {}
    except (ValueError, TypeError):
        return {}
