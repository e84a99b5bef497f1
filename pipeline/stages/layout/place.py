"""Where a page image lies: relative to the raw file or to the raw folder, and never outside it."""

from __future__ import annotations

from pathlib import Path

from pipeline.reasons import Reason
from pipeline.stages.layout.picture import PictureFault


def candidates(written: str, source: str, raw: Path) -> list[Path]:
    """Where the image may lie inside the raw folder, in the order in which ``find_image`` looks."""
    paths = []
    for start in (raw / Path(source).parent, raw):
        try:
            path = (start / written).resolve()
        except (OSError, ValueError, RuntimeError):
            continue
        if path.is_relative_to(raw) and path not in paths:
            paths.append(path)
    return paths


def there(path: Path) -> bool:
    """Whether a file lies there; nothing lies at a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def find_image(written: str, source: str, raw: Path) -> Path:
    """The image file that a record of ``source`` names, links resolved.

    Args:
        written: the path as written in the record.
        source: the record's file, relative to the raw folder.
        raw: the raw folder, links resolved.

    Raises:
        PictureFault: no such file, or it leads out of the raw folder.
    """
    outside, tried = [], 0
    for start in (raw / Path(source).parent, raw):
        try:
            path = (start / written).resolve()
            tried += 1
            if not path.is_relative_to(raw):
                outside.append(path.exists())
            elif path.is_file():
                return path
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, a loop of links
            continue
    # One of the two readings may lead out and mean nothing, as `../images/a.png` does from the raw folder.
    if any(outside) or (outside and len(outside) == tried):
        raise PictureFault(Reason.IMAGE_PATH_ESCAPE, written[:80])
    raise PictureFault(Reason.IMAGE_MISSING, written[:80])
