"""What was hashed before, so that a file that did not change since is not hashed again.

A file is known by (device, inode, size, mtime, ctime): an edit that restores the mtime still moves the ctime. The
record lies in the user's own cache folder, never beside the data it vouches for.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pipeline.shards.writer import file_sha256

RACY_NS = 2_000_000_000
"""A file changed less than this before it was recorded is not trusted: another edit within one tick of the file
system's clock would leave the same times."""

Stamp = tuple[int, int, int, int, int]


class HashCache:
    """Digests by file of one folder.

    Args:
        folder: the folder.
        place: where records are kept; default ``$XDG_CACHE_HOME/cleanroom`` or ``~/.cache/cleanroom``.
    """

    def __init__(self, folder: Path, place: Path | None = None) -> None:
        self._folder = folder
        key = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
        self._path = (place or _default_place()) / f"{key}.json"
        self._known = _load(self._path)
        self._fresh: dict[str, tuple[Stamp, str]] = {}

    def knows(self, name: str, sha256: str) -> bool:
        """Whether this file was found to have this digest and did not change since."""
        return self.recall(name) == sha256

    def recall(self, name: str) -> str | None:
        """The digest this file was found to have, None when it is not known or the file changed since."""
        known = self._known.get(name)
        if known is None or known[0] != _stamp(self._folder / name):
            return None
        self._fresh[name] = known
        return known[1]

    def digest(self, name: str) -> str:
        """The digest of this file, hashed only where it is not known; raises ``OSError``."""
        if (known := self.recall(name)) is not None:
            return known
        before = self.stamp(name)
        made = file_sha256(self._folder / name)
        self.learn(name, made, before)
        return made

    def stamp(self, name: str) -> Stamp | None:
        """The file as it stands; take it before hashing, and give it to ``learn`` after."""
        return _stamp(self._folder / name)

    def learn(self, name: str, sha256: str, before: Stamp | None) -> None:
        """Note that the file has this digest, unless it changed meanwhile or just now."""
        after = _stamp(self._folder / name)
        if before is not None and before == after and max(after[3:]) < time.time_ns() - RACY_NS:
            self._fresh[name] = after, sha256

    def save(self) -> None:
        """Keep what is known for the next time. A cache that cannot be written is no failure."""
        if self._fresh == self._known:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self._path.with_suffix(f".{os.getpid()}.tmp")
            beside.write_text(json.dumps(self._fresh))
            beside.replace(self._path)


def _default_place() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "cleanroom"


def _stamp(path: Path) -> Stamp | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _load(path: Path) -> dict[str, tuple[Stamp, str]]:
    """Records of an earlier verification; none where they are unreadable, damaged or another user's."""
    try:
        if path.stat().st_uid != os.geteuid():
            return {}
        value: Mapping[str, tuple[tuple[int, ...], str]] = json.loads(path.read_text())
        return {name: ((d, i, s, m, c), digest) for name, ((d, i, s, m, c), digest) in value.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
