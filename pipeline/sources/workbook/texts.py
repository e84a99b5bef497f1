"""From stored values to text as a reader of the sheet sees it, without passing numbers through a float.

Numbers keep every stored digit; a fraction is the shortest text of the same double. Dates and times are ISO 8601.
Booleans are ``TRUE`` and ``FALSE``.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.sources.workbook.cells import Cells, Int64s, Stored
from pipeline.sources.workbook.escapes import decode
from pipeline.sources.workbook.placed import Making, Placed
from pipeline.sources.workbook.pool import pool
from pipeline.sources.workbook.shared import SharedTexts
from pipeline.sources.workbook.styles import Shown, Shows
from pipeline.sources.workbook.tokens import replaced

_PLAIN = r"^(?:0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]{0,9})\.[0-9]{0,4}[1-9])$"
"""Numbers that are shown as they are stored: whole ones, and fractions of at most 15 digits."""
_LONG_FRACTION = r"^-?[0-9]{1,12}\.[0-9]{6,}$"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_EXPONENT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
ERRORS = (
    "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA", "#SPILL!", "#CALC!",
    "#FIELD!", "#BLOCKED!", "#UNKNOWN!", "#CONNECT!", "#BUSY!", "#PYTHON!", "#EXTERNAL!", "#ERROR!",
)  # fmt: skip
"""What a cell shows whose formula failed."""
DAY_MS = 86_400_000
LAST_DAY = 2_958_466
"""The day after 9999-12-31, in days of the 1900 system."""


class Texts:
    """Turns stored cells to texts.

    Args:
        shared: the shared texts.
        shows: how each style shows numbers.
        date1904: whether day 0 is 1904-01-01.
    """

    def __init__(self, shared: SharedTexts, shows: Shows, *, date1904: bool) -> None:
        self._shared, self._shows, self._date1904 = shared, shows, date1904

    def __call__(self, cells: Cells) -> Placed:
        """The cells with their texts, and what is wrong with them."""
        made = Making(cells.rows, cells.row_of, cells.columns)
        at = np.flatnonzero(cells.stored == Stored.SHARED)
        if len(at):
            self._of_shared(cells.shared, at, made)
        valued = cells.valued()
        stored = cells.stored[valued]
        for kind in np.unique(stored).tolist():
            here = np.flatnonzero(stored == kind)
            values = cells.values if len(here) == len(valued) else cells.values.take(pa.array(here))
            self._of_values(Stored(kind), values, cells, valued[here], made)
        made.mark(np.flatnonzero(cells.stored == Stored.FORMULA_EMPTY), "cell_formula_empty")
        return made.done()

    def _of_shared(self, indices: Int64s, at: Int64s, made: Making) -> None:
        shared = self._shared.up_to(int(indices.max()))
        there = (indices >= 0) & (indices < len(shared))
        made.place(at[there], shared, indices[there])
        made.mark(at[~there], "cell_error", "a shared text that is not there")

    def _of_values(
        self, stored: Stored, values: pa.StringArray, cells: Cells, at: Int64s, made: Making
    ) -> None:
        escaped = None
        match stored:
            case Stored.TEXT | Stored.FORMULA_TEXT:
                values, escaped = decode(values)
                if stored is Stored.FORMULA_TEXT:  # some programs store the errors of formulas as text
                    wrong = pc.is_in(values, pa.array(ERRORS)).to_numpy(zero_copy_only=False)
                    made.mark(at[wrong], "cell_error", values.filter(pa.array(wrong)).to_pylist())
            case Stored.NUMBER:
                values = self._of_numbers(values, cells.styles[at], at, made)
            case Stored.BOOLEAN:
                values = pc.if_else(pc.is_in(values, pa.array(["0", "false"])), "FALSE", "TRUE")
            case Stored.ERROR:
                made.mark(at, "cell_error", values.to_pylist())
            case Stored.INVALID:
                made.mark(at, "cell_error", "a value of an unknown type")
            case _:
                pass
        made.place(at, pool(values, escaped), np.arange(len(at)))

    def _of_numbers(
        self, values: pa.StringArray, styles: npt.NDArray[np.int32], at: Int64s, made: Making
    ) -> pa.StringArray:
        shows = np.zeros(len(at), np.uint8)
        known = styles < len(self._shows)
        shows[known] = self._shows[styles[known]]
        values = _fractions(values)
        odd = _odd(values)
        bad = []
        texts = []
        for place, raw in zip(odd.tolist(), values.take(pa.array(odd)).to_pylist(), strict=True):
            text = number(raw)
            texts.append(raw if text is None else text)
            if text is None:
                bad.append(place)
        made.mark(at[bad], "cell_error", "not a finite number")
        shows[bad] = Shown.NUMBER
        values = replaced(values, odd, texts)
        dated = np.flatnonzero(shows != Shown.NUMBER)
        if not len(dated):
            return values
        moments = dates(values.take(pa.array(dated)), shows[dated], date1904=self._date1904)
        return replaced(values, dated, moments)


def _fractions(values: pa.StringArray) -> pa.StringArray:
    """Fractions of many digits as the shortest text of the same double, where that has no exponent."""
    long = pc.match_substring_regex(values, _LONG_FRACTION)
    places = np.flatnonzero(long.to_numpy(zero_copy_only=False))
    if not len(places):
        return values
    short = values.take(pa.array(places)).cast(pa.float64()).cast(pa.string())
    plain = pc.invert(pc.or_(pc.match_substring(short, "e"), pc.equal(short, "-0")))
    keep = plain.to_numpy(zero_copy_only=False)
    return replaced(values, places[keep], short.filter(plain))


def _odd(values: pa.StringArray) -> Int64s:
    """Indices of stored numbers that are not written as they are shown. Whole numbers, the most, are told first."""
    whole = pc.and_(pc.ascii_is_decimal(values), pc.invert(pc.starts_with(values, "0")))
    rest = np.flatnonzero(~whole.to_numpy(zero_copy_only=False))
    plain = pc.match_substring_regex(values.take(pa.array(rest)), _PLAIN).to_numpy(zero_copy_only=False)
    odd: Int64s = rest[~plain]
    return odd


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


def dates(numbers: pa.StringArray, shows: npt.NDArray[np.uint8], *, date1904: bool) -> list[str]:
    """Serial day numbers as ISO 8601, to the millisecond.

    Dates as ``2024-01-31``, with a time of day ``2024-01-31T09:30:00``; times of day ``09:30:00``; durations
    ``42:00:00``. A number outside of the calendar stays a number. The 1900 system counts a 29th of February 1900
    that never was: day 60 stays ``1900-02-29``, as the sheet shows it.
    """
    serial = numbers.cast(pa.float64()).to_numpy()
    total = np.round(serial * DAY_MS)
    last = LAST_DAY - 1462 if date1904 else LAST_DAY
    legal = (serial >= 0) & (total < last * DAY_MS)
    whole = np.where(legal, total, 0).astype(np.int64)
    days, ms = whole // DAY_MS, whole % DAY_MS
    if date1904:
        moments = np.datetime64("1904-01-01", "ms") + whole
    else:
        moments = np.datetime64("1899-12-30", "ms") + whole + np.where(days < 60, DAY_MS, 0)
    seconds = np.datetime_as_string(moments.astype("datetime64[s]"))
    texts = np.array(numbers.to_pylist(), object)
    clock = legal & (days == 0) & ((shows == Shown.TIME) | (ms > 0) & (not date1904))
    timed = legal & ~clock & ((ms > 0) | np.isin(shows, (Shown.DATETIME, Shown.TIME)))
    plain = legal & ~clock & ~timed
    texts[plain] = seconds[plain].astype("U10")
    texts[timed] = seconds[timed]
    for i in np.flatnonzero(clock | ((shows == Shown.DURATION) & (serial >= 0) & (total < 2**53))).tolist():
        texts[i] = _clock(int(total[i]))
    for i in np.flatnonzero(timed & (ms % 1000 > 0)).tolist():
        texts[i] = str(moments[i])
    if not date1904:
        for i in np.flatnonzero((days == 60) & (plain | timed)).tolist():
            texts[i] = "1900-02-29" + texts[i][10:]
    made: list[str] = texts.tolist()
    return made


def _clock(ms: int) -> str:
    """Milliseconds as ``09:30:00`` or ``09:30:00.250``."""
    seconds, rest = divmod(ms, 1000)
    fraction = f".{rest:03d}" if rest else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"
