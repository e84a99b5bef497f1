"""File patterns of a schema, and litter: files that are never input, such as lock files and folder settings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import PurePosixPath

# Litter

_LITTER_PREFIXES = {
    "~$": "lock file of an open document",
    ".~lock.": "lock file of an open document",
    "._": "AppleDouble file",
}
_LITTER_NAMES = {
    ".ds_store": "folder settings",
    "thumbs.db": "thumbnail cache",
    "ehthumbs.db": "thumbnail cache",
    "desktop.ini": "folder settings",
}
_LITTER_FOLDERS = {
    "__macosx": "AppleDouble folder",
    ".git": "version control",
    ".svn": "version control",
    ".hg": "version control",
    ".dvc": "version control",
    ".ipynb_checkpoints": "editor's copies",
    "__pycache__": "compiled code",
    "$recycle.bin": "recycle bin",
    ".trash": "recycle bin",
}
_LITTER_SUFFIXES = {
    ".swp": "editor's swap file",
    ".swo": "editor's swap file",
    ".tmp": "temporary file",
    ".temp": "temporary file",
    ".part": "unfinished download",
    ".partial": "unfinished download",
    ".crdownload": "unfinished download",
    ".lock": "lock file",
    ".dvc": "version control",
}

IMAGE_SUFFIXES = frozenset(
    (
        ".png",
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jp2",
        ".tif",
        ".tiff",
        ".bmp",
        ".gif",
        ".webp",
        ".pdf",
        ".pbm",
        ".pgm",
        ".ppm",
    )
)
"""Suffixes of page images: records refer to them, and no schema reads them."""


def litter_folder(name: str) -> str:
    """The kind of a litter folder with this name; "" if its files may be input."""
    return _LITTER_FOLDERS.get(name.lower(), "")


def always_litter(name: str) -> str:
    """The kind of a litter file with this name, whatever the patterns; "" if it may be input."""
    lowered = name.lower()
    for prefix, what in _LITTER_PREFIXES.items():
        if lowered.startswith(prefix):
            return what
    return _LITTER_NAMES.get(lowered, "")


def litter_unless_named(name: str, patterns: Sequence[str]) -> str:
    """The kind of a litter file with this name; "" if it may be input or a pattern names its suffix or leading dot."""
    path = PurePosixPath(name)
    suffix = path.suffix.lower()
    names = [PurePosixPath(pattern).name.lower() for pattern in patterns]
    if what := _LITTER_SUFFIXES.get(suffix, ""):
        return "" if any(pattern.endswith(suffix) for pattern in names) else what
    if name.endswith("~") or (name.startswith("#") and name.endswith("#")):
        return "editor's backup"
    if name.startswith("."):
        return "" if any(pattern.startswith(".") for pattern in names) else "hidden file"
    return ""


# Patterns: ``*``, ``?`` and ``[…]`` match within one folder, ``**`` at any depth


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression over relative paths with forward slashes, compared in NFC, with case."""
    text = unicodedata.normalize("NFC", pattern).replace("\\", "/").removeprefix("./").strip("/")
    parts, at = [], 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif text.startswith("**", at):
            parts.append(".*")
            at += 2
        elif text[at] == "*":
            parts.append("[^/]*")
            at += 1
        elif text[at] == "?":
            parts.append("[^/]")
            at += 1
        elif (
            text[at] == "[" and (close := text.find("]", at + 2 + (text[at + 1 : at + 2] in ("!", "^")))) > 0
        ):
            inner = text[at + 1 : close].replace("\\", r"\\").replace("[", r"\[")
            inner = "^/" + inner[1:] if inner[0] in "!^" else inner
            parts.append(_character_class(inner))
            at = close + 1
        else:
            parts.append(re.escape(text[at]))
            at += 1
    return re.compile("".join(parts), re.DOTALL)


def _character_class(inner: str) -> str:
    """A character class. One with a reversed range matches nothing, as in the shell."""
    try:
        re.compile(f"[{inner}]")
    except re.error:
        return "(?!)"
    return f"[{inner}]"


def matches_any(path: str, patterns: Sequence[str]) -> bool:
    """Whether any of the patterns matches the whole relative path."""
    name = unicodedata.normalize("NFC", path)
    return any(compile_pattern(pattern).fullmatch(name) for pattern in patterns)


def closest_pattern(path: str, patterns: Sequence[str]) -> str:
    """The most similar pattern: first by suffix, then by common characters; "" without patterns."""
    suffix = PurePosixPath(path).suffix.lower()

    def likeness(pattern: str) -> tuple[bool, float]:
        same = bool(suffix) and PurePosixPath(pattern).suffix.lower() == suffix
        return same, SequenceMatcher(None, path, pattern, autojunk=False).ratio()

    return max(patterns, key=likeness, default="")
