"""Files that are no input whatever their suffix says: locks, temporary files, bookkeeping of file systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

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
