"""File patterns of a schema, and files that are no input whatever their suffix says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import PurePosixPath

# Files that are no input whatever their suffix says: locks, temporary files, bookkeeping of file systems.


_PREFIXES = {
    "~$": "lock file of an open document",
    ".~lock.": "lock file of an open document",
    "._": "AppleDouble file",
}
_NAMES = {
    ".ds_store": "folder settings",
    "thumbs.db": "thumbnail cache",
    "ehthumbs.db": "thumbnail cache",
    "desktop.ini": "folder settings",
}
_FOLDERS = {
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
_SUFFIXES = {
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

IMAGES = frozenset(
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
"""Suffixes of page images: files that records refer to, and that no schema reads."""


def folder_litter(name: str) -> str:
    """What a folder of this name is, where nothing in it is input; else ""."""
    return _FOLDERS.get(name.lower(), "")


def always_litter(name: str) -> str:
    """What a file of this name is, where no pattern makes it an input; else ""."""
    lowered = name.lower()
    for prefix, what in _PREFIXES.items():
        if lowered.startswith(prefix):
            return what
    return _NAMES.get(lowered, "")


def usual_litter(name: str, patterns: Sequence[str]) -> str:
    """What a file of this name is, unless one of the patterns names its suffix, or its leading dot, outright."""
    path = PurePosixPath(name)
    suffix = path.suffix.lower()
    said = [PurePosixPath(pattern).name.lower() for pattern in patterns]
    if what := _SUFFIXES.get(suffix, ""):
        return "" if any(pattern.endswith(suffix) for pattern in said) else what
    if name.endswith("~") or (name.startswith("#") and name.endswith("#")):
        return "editor's backup"
    if name.startswith("."):
        return "" if any(pattern.startswith(".") for pattern in said) else "hidden file"
    return ""


# File patterns of a schema: ``*``, ``?`` and ``[…]`` within one folder, ``**`` for any depth.


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression over relative paths with forward slashes, compared in NFC, with case."""
    text = unicodedata.normalize("NFC", pattern).replace("\\", "/").removeprefix("./").strip("/")
    out, at = [], 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            out.append("(?:[^/]+/)*")
            at += 3
        elif text.startswith("**", at):
            out.append(".*")
            at += 2
        elif text[at] == "*":
            out.append("[^/]*")
            at += 1
        elif text[at] == "?":
            out.append("[^/]")
            at += 1
        elif (
            text[at] == "[" and (close := text.find("]", at + 2 + (text[at + 1 : at + 2] in ("!", "^")))) > 0
        ):
            inner = text[at + 1 : close].replace("\\", r"\\").replace("[", r"\[")
            inner = "^/" + inner[1:] if inner[0] in "!^" else inner
            out.append(_class(inner))
            at = close + 1
        else:
            out.append(re.escape(text[at]))
            at += 1
    return re.compile("".join(out), re.DOTALL)


def _class(inner: str) -> str:
    """A class of letters; one with a range from high to low holds none, as in the shell."""
    try:
        re.compile(f"[{inner}]")
    except re.error:
        return "(?!)"
    return f"[{inner}]"


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether any of the patterns matches the whole relative path."""
    name = unicodedata.normalize("NFC", path)
    return any(compiled(pattern).fullmatch(name) for pattern in patterns)


def closest(path: str, patterns: Sequence[str]) -> str:
    """The pattern most like the path: same suffix first, then the most letters in common; "" without patterns."""
    suffix = PurePosixPath(path).suffix.lower()

    def likeness(pattern: str) -> tuple[bool, float]:
        same = bool(suffix) and PurePosixPath(pattern).suffix.lower() == suffix
        return same, SequenceMatcher(None, path, pattern, autojunk=False).ratio()

    return max(patterns, key=likeness, default="")
