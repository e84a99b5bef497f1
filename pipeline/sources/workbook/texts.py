"""From stored values to text as a reader of the sheet sees it, without passing numbers through a float.

Numbers keep every stored digit; a fraction is the shortest text of the same double. Dates and times are ISO 8601.
Booleans are ``TRUE`` and ``FALSE``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.sources.workbook.cells import Cells, Int64s, Mask, Stored
from pipeline.sources.workbook.escapes import decode, escaped, plain
from pipeline.sources.workbook.flat import flat, replaced
from pipeline.sources.workbook.numerals import changes
from pipeline.sources.workbook.placed import Making, Placed
from pipeline.sources.workbook.pool import pool
from pipeline.sources.workbook.shared import SharedTexts
from pipeline.sources.workbook.styles import PADDED, Shown, Shows

ERRORS = (
    "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA", "#SPILL!", "#CALC!",
    "#FIELD!", "#BLOCKED!", "#UNKNOWN!", "#CONNECT!", "#BUSY!", "#PYTHON!", "#EXTERNAL!", "#ERROR!",
)  # fmt: skip
"""What a cell shows whose formula failed."""
_BOOLEANS = ("FALSE", "TRUE")
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
        # Most values are shown as they are stored: these are not copied here, only the others.
        same = np.ones(len(valued), np.bool_)
        for kind in np.flatnonzero(np.bincount(stored)).tolist():
            here = np.flatnonzero(stored == kind)
            self._of_values(Stored(kind), cells, valued, here, same, made)
        if same.any():
            made.place(valued[same], pool(cells.values), np.flatnonzero(same))
        made.mark(np.flatnonzero(cells.stored == Stored.FORMULA_EMPTY), "cell_formula_empty")
        return made.done()

    def _of_shared(self, indices: Int64s, at: Int64s, made: Making) -> None:
        shared = self._shared.up_to(int(indices.max()))
        there = (indices >= 0) & (indices < len(shared))
        made.place(at[there], shared, indices[there])
        made.mark(at[~there], "cell_error", "a shared text that is not there")

    def _of_values(
        self, kind: Stored, cells: Cells, valued: Int64s, here: Int64s, same: Mask, made: Making
    ) -> None:
        """Mark the values of one kind, and place those that are not shown as they are stored: ``same`` is then false.

        ``here``: their indices among the values.
        """
        at = valued[here]
        match kind:
            case Stored.TEXT:
                some = escaped(cells.values)
                self._unescaped(cells.values, some[cells.stored[valued[some]] == kind], valued, same, made)
            case Stored.FORMULA_TEXT:
                texts, changed = decode(cells.values.take(pa.array(here)))
                # Some programs store the errors of formulas as text.
                wrong = pc.is_in(texts, value_set=pa.array(ERRORS)).to_numpy(zero_copy_only=False)
                made.mark(at[wrong], "cell_error", texts.filter(pa.array(wrong)).to_pylist())
                made.write(at, texts, changed)
                same[here] = False
            case Stored.NUMBER:
                values = cells.values if len(here) == len(valued) else cells.values.take(pa.array(here))
                same[here] = ~self._of_numbers(values, cells.styles[at], at, made)
            case Stored.BOOLEAN:
                made.place(at, pool(pa.array(_BOOLEANS)), _truths(cells.values, here))
                same[here] = False
            case Stored.ERROR:
                made.mark(at, "cell_error", cells.values.take(pa.array(here)).to_pylist())
            case Stored.INVALID:
                made.mark(at, "cell_error", "a value of an unknown type")
            case _:
                pass

    def _unescaped(
        self, values: pa.StringArray, some: Int64s, valued: Int64s, same: Mask, made: Making
    ) -> None:
        """Place the texts among ``some`` that have escapes."""
        before = values.take(pa.array(some)).to_pylist()
        after = [plain(text) for text in before]
        changed = np.array([old != new for old, new in zip(before, after, strict=True)], np.bool_)
        texts = pa.array([text for text, new in zip(after, changed, strict=True) if new], pa.string())
        made.write(valued[some[changed]], texts, np.ones(len(texts), np.bool_))
        same[some[changed]] = False

    def _of_numbers(
        self, values: pa.StringArray, styles: npt.NDArray[np.int32], at: Int64s, made: Making
    ) -> Mask:
        """Place the numbers that are not shown as they are stored, and say which these are."""
        shows = np.zeros(len(at), np.uint8)
        known = styles < len(self._shows)
        shows[known] = self._shows[styles[known]]
        places, texts, bad = changes(values)
        made.mark(at[bad], "cell_error", "not a finite number")
        shows[bad] = Shown.NUMBER
        changed = np.zeros(len(at), np.bool_)
        padded = np.flatnonzero(shows > PADDED)
        if len(padded):
            whole = replaced(values, places, texts).take(pa.array(padded)).to_pylist()
            digits = (shows[padded] - PADDED).tolist()
            made.write(at[padded], pa.array(map(_padded, whole, digits), pa.string()))
            changed[padded] = True
        dated = np.flatnonzero((shows != Shown.NUMBER) & (shows < PADDED))
        if len(dated):
            some = replaced(values, places, texts).take(pa.array(dated))
            made.write(at[dated], pa.array(dates(some, shows[dated], date1904=self._date1904), pa.string()))
            changed[dated] = True
        rest = ~changed[places]
        made.write(at[places[rest]], texts.filter(pa.array(rest)))
        changed[places] = True
        return changed


def _padded(number: str, digits: int) -> str:
    """A whole number with zeros in front; any other as it is, for nothing is rounded."""
    sign, rest = ("-", number[1:]) if number.startswith("-") else ("", number)
    return sign + rest.zfill(digits) if rest.isdigit() else number


def _truths(values: pa.StringArray, here: Int64s) -> Int64s:
    """Index into ``_BOOLEANS`` of stored booleans: anything but ``0`` and ``false`` is true."""
    data, offsets = flat(values)
    truths: Int64s = (data[offsets[here]] != ord("0")).astype(np.int64)
    long = np.flatnonzero(offsets[here + 1] - offsets[here] > 1)
    truths[long] = [text != "false" for text in values.take(pa.array(here[long])).to_pylist()]
    return truths


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
