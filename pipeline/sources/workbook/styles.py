"""Which cell styles show a number as a date, a time, a duration, or with leading zeros (ECMA-376 part 1, 18.8.30 and
18.8.31)."""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from pipeline.sources.workbook.package import SMALL, Package
from pipeline.sources.workbook.xml import Attributes, attribute, local, parser
from pipeline.sources.workbook.xml import feed as feed_


class Shown(IntEnum):
    """How a number is shown."""

    NUMBER = 0
    DATE = 1  # the day only
    DATETIME = 2
    TIME = 3  # the time of day only
    DURATION = 4  # hours may go beyond 24


PADDED = 100
"""``PADDED + n``: a whole number is shown with zeros in front, up to ``n`` digits."""

Shows = npt.NDArray[np.uint8]

_BUILT_IN = {
    **dict.fromkeys((14, 15, 16, 17), Shown.DATE),
    **dict.fromkeys((18, 19, 20, 21, 45, 47), Shown.TIME),
    22: Shown.DATETIME,
    46: Shown.DURATION,
    # East Asian formats
    **dict.fromkeys((27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58), Shown.DATE),
    **dict.fromkeys((32, 33, 34, 35, 55, 56), Shown.TIME),
}
_QUIET = re.compile(r'"[^"]*"|\\.|_.|\*.|am/pm|a/p', re.IGNORECASE | re.DOTALL)
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_ZEROS = re.compile(r"0{2,20}")
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)


def shown_by(code: str) -> Shown:
    """How a number format code shows a number, by its first section."""
    half_day = re.search(r"am/pm|a/p", code, re.IGNORECASE) is not None
    bare = _QUIET.sub("", code).split(";")[0]
    if any(_ELAPSED.fullmatch(inner) for inner in _BRACKETS.findall(bare)):
        return Shown.DURATION
    letters = _BRACKETS.sub("", bare).lower()
    if letters.strip() in ("", "general", "standard"):
        return Shown.TIME if half_day else Shown.NUMBER
    clock = half_day or "h" in letters or "s" in letters
    day = "y" in letters or "d" in letters or ("m" in letters and not clock)
    if day:
        return Shown.DATETIME if clock else Shown.DATE
    return Shown.TIME if clock else Shown.NUMBER


def _shown(code: str) -> int:
    """How a format code shows a number: a ``Shown``, or above ``PADDED`` (``00000``, as for postal codes)."""
    first = code.split(";")[0].strip()
    return PADDED + len(first) if _ZEROS.fullmatch(first) else shown_by(code)


def read(package: Package, part: str) -> Shows:
    """How each cell style (``s`` of a cell) shows a number, uint8 [styles]: a ``Shown``, or above ``PADDED``; empty
    without a style sheet."""
    if not package.has(part):
        return np.zeros(0, np.uint8)
    codes: dict[int, str] = {}
    formats: list[int] = []
    path: list[str] = []

    def start(name: str, attributes: Attributes) -> None:
        match path[-1:], local(name):
            case ["numFmts"], "numFmt":
                codes[_number(attribute(attributes, "numFmtId"))] = attribute(attributes, "formatCode")
            case ["cellXfs"], "xf":
                formats.append(_number(attribute(attributes, "numFmtId", "0")))
            case _:
                pass
        path.append(local(name))

    def end(_: str) -> None:
        path.pop()

    feed_(part, parser(start, end), package.chunks(part, limit=SMALL))
    shown = {number: _shown(code) for number, code in codes.items()}
    return np.array([shown.get(f, _BUILT_IN.get(f, Shown.NUMBER)) for f in formats], np.uint8)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
