"""The text of a stored number: as it is stored, where that is what a sheet shows, without passing through a float."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.sources.workbook.cells import Int64s, Mask
from pipeline.sources.workbook.flat import flat

_LONG_FRACTION = r"^-?[0-9]{1,12}\.[0-9]{6,}$"
_SHOWN_FRACTION = r"^-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]$"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_EXPONENT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_ZERO, _DOT, _MINUS = b"0.-"


def changes(values: pa.StringArray) -> tuple[Int64s, pa.StringArray, Int64s]:
    """Indices of stored numbers that are not shown as they are stored, how these are shown, and indices of what is no
    finite number."""
    places = np.flatnonzero(~plain(values))
    some = values.take(pa.array(places))
    if not len(places):
        return places, some, places
    # The shortest text of the same double, for all of them at once.
    long = np.flatnonzero(_matching(some, _LONG_FRACTION))
    short = some.take(pa.array(long)).cast(pa.float64()).cast(pa.string())
    done = _matching(short, _SHOWN_FRACTION)
    left = np.ones(len(places), np.bool_)
    left[long[done]] = False
    others = [number(text) for text in some.filter(pa.array(left)).to_pylist()]
    good = np.array([text is not None for text in others], np.bool_)
    rest = np.flatnonzero(left)
    index = np.concatenate([long[done], rest[good]])
    texts = [
        short.filter(pa.array(done)),
        pa.array([text for text in others if text is not None], pa.string()),
    ]
    order = np.argsort(index)
    return places[index[order]], pa.concat_arrays(texts).take(pa.array(order)), places[rest[~good]]


def _matching(texts: pa.StringArray, pattern: str) -> Mask:
    """Which texts (without a null) a regular expression is found in."""
    found: Mask = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return found


def plain(values: pa.StringArray) -> Mask:
    """Which stored numbers are shown as they are stored: whole ones, and fractions of at most 15 digits, of these at
    most 5 behind the point; without a needless zero or sign."""
    data, offsets = flat(values)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(data):
        return np.zeros(len(starts), np.bool_)
    last = len(data) - 1
    first = data[np.minimum(starts, last)]
    negative = (first == _MINUS) & (ends - starts > 1)
    starts = starts + negative
    first = np.where(negative, data[np.minimum(starts, last)], first)
    other = data - np.uint8(_ZERO) > 9  # what is no digit wraps to 10 and more
    before = np.zeros(len(data) + 1, np.int64)
    np.cumsum(other, out=before[1:])
    others = before[ends] - before[starts]
    filled = ends > starts
    whole: Mask = (others == 0) & filled & ((first != _ZERO) | ((ends - starts == 1) & ~negative))
    one = np.flatnonzero(others == 1)
    dot = np.flatnonzero(other)[before[starts[one]]]
    digits, decimals = dot - starts[one], ends[one] - dot - 1
    whole[one] = (
        (data[dot] == _DOT)
        & ((digits == 1) | ((digits > 1) & (digits <= 10) & (first[one] != _ZERO)))
        & ((decimals > 0) & (decimals <= 5) & (data[ends[one] - 1] != _ZERO))
    )
    return whole


def number(raw: str) -> str | None:
    """A stored number as text: an integer digit by digit, a fraction as the shortest text of the same double.

    None for what is no finite number.
    """
    text = raw.strip()
    if _INTEGER.fullmatch(text):
        digits = text.lstrip("+-").lstrip("0") or "0"
        return f"-{digits}" if text.startswith("-") and digits != "0" else digits
    if not _EXPONENT.fullmatch(text):
        return None
    value = float(text)
    if not np.isfinite(value):
        return None
    return shortest(value)


def shortest(value: float) -> str:
    """Shortest text of a finite double: plain digits where the sheet would show a plain number, else an exponent."""
    if value == 0:
        return "0"
    if 1e-9 <= abs(value) < 1e21:
        return format(Decimal(repr(value)).normalize(), "f")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}E{int(exponent):+03d}"
