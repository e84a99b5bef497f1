"""What a run keeps for the next one in the user's cache folder: notes, and digests of files that did not change.

What is trusted, and why. A file is read only when it belongs to this user, nobody else may write it, and it carries
the digest of its own content: a damaged, truncated or half-written one is as good as none, and another user's is never
looked at. Who can write files as this user can also change the program; nothing kept here protects from that. Losing
these files costs time, never a result.

A file is known by (device, inode, size, mtime, ctime): an edit that restores the mtime still moves the ctime. The
record lies in the user's own cache folder (``notes.py`` says what of it is trusted).
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

# What a run keeps for the next one: small JSON files in the user's own cache folder,
# ``$XDG_CACHE_HOME/cleanroom`` or ``~/.cache/cleanroom``, never beside the data they speak of.


class KeptFile:
    """One such file.

    Args:
        subject: the folder it speaks of; each has a file of its own.
        suffix: what kind of notes: several kinds may speak of one folder.
        place: the folder of these files; default: the user's cache folder.
    """

    def __init__(self, subject: Path, suffix: str = "", place: Path | None = None) -> None:
        key = hashlib.sha256(os.fsencode(subject.resolve())).hexdigest()[:32]
        self.path = (place or cache_folder()) / f"{key}{suffix}.json"

    def read(self) -> Any:
        """What was kept, as plain JSON values; None where there is nothing that can be trusted."""
        content = self.read_bytes()
        try:
            return None if content is None else json.loads(content)
        except (ValueError, RecursionError):
            return None

    def read_bytes(self) -> bytes | None:
        """What was kept, as bytes; None where there is nothing that can be trusted."""
        try:
            with self.path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    return None
                digest, _, content = file.read().partition(b"\n")
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest().encode() == digest else None

    def write(self, value: Any) -> None:
        """Keep plain JSON values for the next time."""
        self.write_bytes(json.dumps(value, separators=(",", ":")).encode())

    def write_bytes(self, content: bytes) -> None:
        """Keep it for the next time. What cannot be written is no failure: the next run takes longer."""
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self.path.with_suffix(f".{os.getpid()}.tmp")
            try:
                handle = os.open(
                    beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
                )
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
                beside.replace(self.path)
            except OSError:
                beside.unlink(missing_ok=True)

    def remove(self) -> None:
        """Forget it."""
        with suppress(OSError):
            self.path.unlink()


def cache_folder() -> Path:
    """Where this program keeps what it may lose: below the user's own cache folder."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "cleanroom"


# What was hashed before, so that a file that did not change since is not hashed again.


RACY_NS = 2_000_000_000
"""A file changed less than this before it was recorded is not trusted: another edit within one tick of the file
system's clock would leave the same times."""

TICK_NS = 50_000_000
"""The same for a file that this run wrote, on a file system whose times show fractions of a millisecond: five times the
longest tick of a kernel's clock (10 ms)."""

SHA256 = re.compile(r"[0-9a-f]{64}")
Stamp = tuple[int, int, int, int, int]


class HashCache:
    """Digests by file of one folder.

    Args:
        folder: the folder.
        place: where records are kept; default: the user's cache folder.
        force: whether what an earlier run kept is left unread, so that every file is hashed again.
    """

    def __init__(self, folder: Path, place: Path | None = None, *, force: bool = False) -> None:
        self._folder = os.fspath(folder)
        self._notes = KeptFile(folder, place=place)
        self._known = {} if force else _known(self._notes.read())
        self._fresh: dict[str, tuple[Stamp, str]] = {}

    def knows(self, name: str, sha256: str) -> bool:
        """Whether this file was found to have this digest and did not change since."""
        return self.recall(name) == sha256

    def recall(self, name: str) -> str | None:
        """The digest this file was found to have, None when it is not known or the file changed since."""
        known = self._known.get(name)
        if known is None or known[0] != stamp(f"{self._folder}/{name}"):
            return None
        self._fresh[name] = known
        return known[1]

    def digest(self, name: str) -> str:
        """The digest of this file, hashed only where it is not known; raises ``OSError``."""
        if (known := self.recall(name)) is not None:
            return known
        before = self.stamp(name)
        made = file_sha256(Path(self._folder, name))
        self.learn(name, made, before)
        return made

    def have(self, digests: Mapping[str, str]) -> bool:
        """Whether each of these files has this digest; "" says that no such file is there."""
        return all(self._found(name) == digest for name, digest in digests.items())

    def _found(self, name: str) -> str | None:
        """The digest of this file, "" where there is none, None where it cannot be read."""
        known = self.recall(name)
        try:
            return known or (self.digest(name) if Path(self._folder, name).is_file() else "")
        except OSError:
            return None

    def stamp(self, name: str) -> Stamp | None:
        """The file as it stands, None where it changed just now; take it before hashing, give it to ``learn`` after."""
        found = stamp(f"{self._folder}/{name}")
        return found if found is not None and settled(found) else None

    def learn(self, name: str, sha256: str, before: Stamp | None) -> None:
        """Note that the file has this digest, unless it changed meanwhile or just before."""
        if before is not None and before == stamp(f"{self._folder}/{name}"):
            self._fresh[name] = before, sha256

    def learn_written(self, name: str, sha256: str, mtime_ns: int) -> None:
        """Note the digest of a file that this run wrote and hashed when it had this mtime, and has moved since.

        Nothing is noted where it was written to after that, or moved just now, or where the file system's clock is
        too coarse to tell.
        """
        found = stamp(f"{self._folder}/{name}")
        if found is None or not mtime_ns or found[3] != mtime_ns or not found[4] % 1_000_000:
            return
        if max(found[3:]) < time.time_ns() - TICK_NS:
            self._fresh[name] = found, sha256

    def save(self) -> None:
        """Keep what is known for the next time. A cache that cannot be written is no failure."""
        if self._fresh != self._known:
            self._notes.write(self._fresh)


def stamp(path: str | Path) -> Stamp | None:
    """(device, inode, size, mtime, ctime) of a file, None where there is none."""
    try:
        facts = os.stat(path)  # noqa: PTH116 - asked for every file of a run
    except (OSError, ValueError):
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def settled(found: Stamp) -> bool:
    """Whether the file changed long enough ago for its stamp to be trusted from now on."""
    return max(found[3:]) < time.time_ns() - RACY_NS


def _known(value: object) -> dict[str, tuple[Stamp, str]]:
    """Records of an earlier run; none where they have not the form."""
    if not isinstance(value, dict):
        return {}
    try:
        found = {name: ((d, i, s, m, c), digest) for name, ((d, i, s, m, c), digest) in value.items()}
        return found if all(SHA256.fullmatch(digest) for _, digest in found.values()) else {}
    except (ValueError, TypeError):
        return {}
