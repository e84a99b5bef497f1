"""The digest of a file's content."""

from __future__ import annotations

import hashlib
from pathlib import Path


def file_sha256(path: Path) -> str:
    """Digest of a file's bytes, hexadecimal. Hashing after the write is faster than hashing inside it: the file is
    in the page cache."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
