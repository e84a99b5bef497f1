"""What a run keeps for the next one: small JSON files in the user's own cache folder, ``$XDG_CACHE_HOME/cleanroom`` or
``~/.cache/cleanroom``, never beside the data they speak of.

What is trusted, and why. A file is read only when it belongs to this user, nobody else may write it, and it carries
the digest of its own content: a damaged, truncated or half-written one is as good as none, and another user's is never
looked at. Who can write files as this user can also change the program; nothing kept here protects from that. Losing
these files costs time, never a result.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any


class Notes:
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
