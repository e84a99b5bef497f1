"""Where a page image lies: relative to the raw file or to the raw folder, and never outside it."""

from __future__ import annotations

from pathlib import Path

from pipeline.reasons import Reason
from pipeline.stages.layout.picture import PictureFault


def find_image(written: str, source: str, raw: Path) -> Path:
    """The image file that a record of ``source`` names, links resolved.

    Args:
        written: the path as written in the record.
        source: the record's file, relative to the raw folder.
        raw: the raw folder, links resolved.

    Raises:
        PictureFault: no such file, or it leads out of the raw folder.
    """
    escapes = False
    for start in (raw / Path(source).parent, raw):
        try:
            path = (start / written).resolve()
            inside = path.is_relative_to(raw)
            if inside and path.is_file():
                return path
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, a loop of links
            continue
        escapes |= not inside
    if escapes:
        raise PictureFault(Reason.IMAGE_PATH_ESCAPE, written[:80])
    raise PictureFault(Reason.IMAGE_MISSING, written[:80])
