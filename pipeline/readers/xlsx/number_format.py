"""Number formats: from stored values to the text that the sheet shows.

Numbers keep every stored digit; a fraction is the shortest text of the same double. Dates and times are ISO 8601.
Booleans are ``TRUE`` and ``FALSE``.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.readers.xlsx.archive import MOST_PART_BYTES, WorkbookArchive
from pipeline.readers.xlsx.rows import CellTexts, CellTextsBuilder, StoredCells, StoredType
from pipeline.readers.xlsx.strings import (
    SharedStrings,
    decode_escape,
    decode_escapes,
    maybe_escaped,
    string_table,
)
from pipeline.readers.xlsx.xml import Attributes, attribute, local_name, make_parser
from pipeline.readers.xlsx.xml import feed as feed_
from pipeline.readers.xlsx.xml_tags import Int64s, Mask, flat_bytes, replace_texts

# Cell styles that show a date, a time, a duration or leading zeros (ECMA-376 part 1, 18.8.30 and 18.8.31)


class NumberStyle(IntEnum):
    """How a style shows a number."""

    NUMBER = 0
    DATE = 1  # the day only
    DATETIME = 2
    TIME = 3  # the time of day only
    DURATION = 4  # hours may go beyond 24


PADDED = 100
"""``PADDED + n``: the style shows a whole number with leading zeros, up to ``n`` digits."""

NumberStyles = npt.NDArray[np.uint8]

_BUILT_IN = {
    **dict.fromkeys((14, 15, 16, 17), NumberStyle.DATE),
    **dict.fromkeys((18, 19, 20, 21, 45, 47), NumberStyle.TIME),
    22: NumberStyle.DATETIME,
    46: NumberStyle.DURATION,
    # East Asian formats
    **dict.fromkeys((27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58), NumberStyle.DATE),
    **dict.fromkeys((32, 33, 34, 35, 55, 56), NumberStyle.TIME),
}
_LITERALS = re.compile(r'"[^"]*"|\\.|_.|\*.|am/pm|a/p', re.IGNORECASE | re.DOTALL)
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_ZEROS = re.compile(r"0{2,20}")
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)


def number_style(code: str) -> NumberStyle:
    """The style of a number format code, by its first section."""
    half_day = re.search(r"am/pm|a/p", code, re.IGNORECASE) is not None
    bare = _LITERALS.sub("", code).split(";")[0]
    if any(_ELAPSED.fullmatch(inner) for inner in _BRACKETS.findall(bare)):
        return NumberStyle.DURATION
    letters = _BRACKETS.sub("", bare).lower()
    if letters.strip() in ("", "general", "standard"):
        return NumberStyle.TIME if half_day else NumberStyle.NUMBER
    clock = half_day or "h" in letters or "s" in letters
    day = "y" in letters or "d" in letters or ("m" in letters and not clock)
    if day:
        return NumberStyle.DATETIME if clock else NumberStyle.DATE
    return NumberStyle.TIME if clock else NumberStyle.NUMBER


def _style_code(code: str) -> int:
    """The code of a format: a ``NumberStyle``, or above ``PADDED`` for leading zeros (``00000`` of postal codes)."""
    first = code.split(";")[0].strip()
    return PADDED + len(first) if _ZEROS.fullmatch(first) else number_style(code)


def read_number_styles(archive: WorkbookArchive, part: str) -> NumberStyles:
    """How each cell style (``s`` of a cell) shows a number: uint8 [styles], a ``NumberStyle`` or above ``PADDED``.

    Empty without a style sheet.
    """
    if not archive.has(part):
        return np.zeros(0, np.uint8)
    codes: dict[int, str] = {}
    formats: list[int] = []
    path: list[str] = []

    def start(name: str, attributes: Attributes) -> None:
        match path[-1:], local_name(name):
            case ["numFmts"], "numFmt":
                codes[_number(attribute(attributes, "numFmtId"))] = attribute(attributes, "formatCode")
            case ["cellXfs"], "xf":
                formats.append(_number(attribute(attributes, "numFmtId", "0")))
            case _:
                pass
        path.append(local_name(name))

    def end(_: str) -> None:
        path.pop()

    feed_(part, make_parser(start, end), archive.chunks(part, limit=MOST_PART_BYTES))
    shown = {number: _style_code(code) for number, code in codes.items()}
    return np.array([shown.get(f, _BUILT_IN.get(f, NumberStyle.NUMBER)) for f in formats], np.uint8)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


# Numbers as text; most keep their stored text and never pass through a float

_LONG_FRACTION = r"^-?[0-9]{1,12}\.[0-9]{6,}$"
_SHOWN_FRACTION = r"^-?(?:0|[1-9][0-9]*)\.[0-9]*[1-9]$"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_EXPONENT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_ZERO, _DOT, _MINUS = b"0.-"


def changed_numbers(values: pa.StringArray) -> tuple[Int64s, pa.StringArray, Int64s]:
    """Indices of the stored numbers that are shown in another way, their shown texts, and indices of the values that
    are not finite numbers."""
    places = np.flatnonzero(~is_shown_as_stored(values))
    some = values.take(pa.array(places))
    if not len(places):
        return places, some, places
    # The shortest texts of the same doubles, for all at once.
    long = np.flatnonzero(_matching(some, _LONG_FRACTION))
    short = some.take(pa.array(long)).cast(pa.float64()).cast(pa.string())
    done = _matching(short, _SHOWN_FRACTION)
    left = np.ones(len(places), np.bool_)
    left[long[done]] = False
    others = [number_text(text) for text in some.filter(pa.array(left)).to_pylist()]
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
    """Which texts (no nulls) contain a match of a regular expression: bool [n]."""
    found: Mask = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return found


def is_shown_as_stored(values: pa.StringArray) -> Mask:
    """Which stored numbers are shown as stored: bool [n].

    These are whole numbers, and fractions of at most 15 digits with at most 5 after the point, without needless zeros
    and signs.
    """
    data, offsets = flat_bytes(values)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(data):
        return np.zeros(len(starts), np.bool_)
    last = len(data) - 1
    first = data[np.minimum(starts, last)]
    negative = (first == _MINUS) & (ends - starts > 1)
    starts = starts + negative
    first = np.where(negative, data[np.minimum(starts, last)], first)
    other = data - np.uint8(_ZERO) > 9  # bytes that are not digits wrap to 10 and more
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


def number_text(raw: str) -> str | None:
    """A stored number as text: an integer digit by digit, a fraction as the shortest text of the same double.

    None if it is not a finite number.
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
    return shortest_text(value)


def shortest_text(value: float) -> str:
    """Shortest text of a finite double: plain digits if the sheet shows a plain number, else with an exponent."""
    if value == 0:
        return "0"
    if 1e-9 <= abs(value) < 1e21:
        return format(Decimal(repr(value)).normalize(), "f")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}E{int(exponent):+03d}"


# Values as text

# fmt: off
ERROR_TEXTS = (
    "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#N/A", "#GETTING_DATA", "#SPILL!", "#CALC!",
    "#FIELD!", "#BLOCKED!", "#UNKNOWN!", "#CONNECT!", "#BUSY!", "#PYTHON!", "#EXTERNAL!", "#ERROR!",
)
# fmt: on
"""Texts of cells with a failed formula."""
_BOOLEANS = ("FALSE", "TRUE")
DAY_MS = 86_400_000
LAST_DAY = 2_958_466
"""The day after 9999-12-31, in days of the 1900 system."""


class TextFormatter:
    """Formats stored cells as texts.

    Args:
        shared: the shared strings.
        number_styles: how each cell style shows numbers, uint8 [styles].
        date1904: whether day 0 is 1904-01-01.
    """

    def __init__(self, shared: SharedStrings, number_styles: NumberStyles, *, date1904: bool) -> None:
        self._shared, self._number_styles, self._date1904 = shared, number_styles, date1904

    def __call__(self, cells: StoredCells) -> CellTexts:
        """The cells with their texts and marks."""
        builder = CellTextsBuilder(cells.rows, cells.row_of, cells.columns)
        at = np.flatnonzero(cells.stored == StoredType.SHARED)
        if len(at):
            self._set_shared(cells.shared, at, builder)
        valued = cells.valued()
        stored = cells.stored[valued]
        # Most values are shown as stored and need no copy here.
        same = np.ones(len(valued), np.bool_)
        for kind in np.flatnonzero(np.bincount(stored)).tolist():
            here = np.flatnonzero(stored == kind)
            self._set_values(StoredType(kind), cells, valued, here, same, builder)
        if same.any():
            builder.set_texts(valued[same], string_table(cells.values), np.flatnonzero(same))
        builder.mark(np.flatnonzero(cells.stored == StoredType.FORMULA_EMPTY), "cell_formula_empty")
        return builder.build()

    def _set_shared(self, indices: Int64s, at: Int64s, builder: CellTextsBuilder) -> None:
        shared = self._shared.up_to(int(indices.max()))
        present = (indices >= 0) & (indices < len(shared))
        builder.set_texts(at[present], shared, indices[present])
        builder.mark(at[~present], "cell_error", "a shared text that is not there")

    def _set_values(
        self,
        kind: StoredType,
        cells: StoredCells,
        valued: Int64s,
        here: Int64s,
        same: Mask,
        builder: CellTextsBuilder,
    ) -> None:
        """Mark the values of one stored type, and set the texts that differ from the stored ones.

        ``here``: indices of these values. ``same`` (bool [v]) becomes false for values with another text.
        """
        at = valued[here]
        match kind:
            case StoredType.TEXT:
                some = maybe_escaped(cells.values)
                self._set_unescaped(
                    cells.values, some[cells.stored[valued[some]] == kind], valued, same, builder
                )
            case StoredType.FORMULA_TEXT:
                texts, changed = decode_escapes(cells.values.take(pa.array(here)))
                # Some programs store errors of formulas as text.
                wrong = pc.is_in(texts, value_set=pa.array(ERROR_TEXTS)).to_numpy(zero_copy_only=False)
                builder.mark(at[wrong], "cell_error", texts.filter(pa.array(wrong)).to_pylist())
                builder.set_own_texts(at, texts, changed)
                same[here] = False
            case StoredType.NUMBER:
                values = cells.values if len(here) == len(valued) else cells.values.take(pa.array(here))
                same[here] = ~self._set_numbers(values, cells.styles[at], at, builder)
            case StoredType.BOOLEAN:
                builder.set_texts(at, string_table(pa.array(_BOOLEANS)), _boolean_indexes(cells.values, here))
                same[here] = False
            case StoredType.ERROR:
                builder.mark(at, "cell_error", cells.values.take(pa.array(here)).to_pylist())
            case StoredType.INVALID:
                builder.mark(at, "cell_error", "a value of an unknown type")
            case _:
                pass

    def _set_unescaped(
        self, values: pa.StringArray, some: Int64s, valued: Int64s, same: Mask, builder: CellTextsBuilder
    ) -> None:
        """Set the texts among ``some`` that have escapes."""
        before = values.take(pa.array(some)).to_pylist()
        after = [decode_escape(text) for text in before]
        changed = np.array([old != new for old, new in zip(before, after, strict=True)], np.bool_)
        texts = pa.array([text for text, new in zip(after, changed, strict=True) if new], pa.string())
        builder.set_own_texts(valued[some[changed]], texts, np.ones(len(texts), np.bool_))
        same[some[changed]] = False

    def _set_numbers(
        self, values: pa.StringArray, styles: npt.NDArray[np.int32], at: Int64s, builder: CellTextsBuilder
    ) -> Mask:
        """Set the texts of numbers that are not shown as stored; returns which these are (bool [k])."""
        shows = np.zeros(len(at), np.uint8)
        known = styles < len(self._number_styles)
        shows[known] = self._number_styles[styles[known]]
        places, texts, bad = changed_numbers(values)
        builder.mark(at[bad], "cell_error", "not a finite number")
        shows[bad] = NumberStyle.NUMBER
        changed = np.zeros(len(at), np.bool_)
        padded = np.flatnonzero(shows > PADDED)
        if len(padded):
            whole = replace_texts(values, places, texts).take(pa.array(padded)).to_pylist()
            digits = (shows[padded] - PADDED).tolist()
            builder.set_own_texts(at[padded], pa.array(map(_pad_with_zeros, whole, digits), pa.string()))
            changed[padded] = True
        dated = np.flatnonzero((shows != NumberStyle.NUMBER) & (shows < PADDED))
        if len(dated):
            some = replace_texts(values, places, texts).take(pa.array(dated))
            builder.set_own_texts(
                at[dated], pa.array(format_dates(some, shows[dated], date1904=self._date1904), pa.string())
            )
            changed[dated] = True
        rest = ~changed[places]
        builder.set_own_texts(at[places[rest]], texts.filter(pa.array(rest)))
        changed[places] = True
        return changed


def _pad_with_zeros(number: str, digits: int) -> str:
    """A whole number with leading zeros; any other number unchanged, because nothing is rounded."""
    sign, rest = ("-", number[1:]) if number.startswith("-") else ("", number)
    return sign + rest.zfill(digits) if rest.isdigit() else number


def _boolean_indexes(values: pa.StringArray, here: Int64s) -> Int64s:
    """Index into ``_BOOLEANS`` of stored booleans: all but ``0`` and ``false`` are true."""
    data, offsets = flat_bytes(values)
    truths: Int64s = (data[offsets[here]] != ord("0")).astype(np.int64)
    long = np.flatnonzero(offsets[here + 1] - offsets[here] > 1)
    truths[long] = [text != "false" for text in values.take(pa.array(here[long])).to_pylist()]
    return truths


def format_dates(numbers: pa.StringArray, styles: npt.NDArray[np.uint8], *, date1904: bool) -> list[str]:
    """Serial day numbers as ISO 8601, to the millisecond.

    Dates as ``2024-01-31``, with a time of day ``2024-01-31T09:30:00``; times of day ``09:30:00``; durations
    ``42:00:00``. A number outside of the calendar stays a number. The 1900 system counts a 29 February 1900,
    which does not exist: day 60 gives ``1900-02-29``, as the sheet shows it.
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
    clock = legal & (days == 0) & ((styles == NumberStyle.TIME) | (ms > 0) & (not date1904))
    timed = legal & ~clock & ((ms > 0) | np.isin(styles, (NumberStyle.DATETIME, NumberStyle.TIME)))
    plain = legal & ~clock & ~timed
    texts[plain] = seconds[plain].astype("U10")
    texts[timed] = seconds[timed]
    for i in np.flatnonzero(
        clock | ((styles == NumberStyle.DURATION) & (serial >= 0) & (total < 2**53))
    ).tolist():
        texts[i] = _clock_text(int(total[i]))
    for i in np.flatnonzero(timed & (ms % 1000 > 0)).tolist():
        texts[i] = str(moments[i])
    if not date1904:
        for i in np.flatnonzero((days == 60) & (plain | timed)).tolist():
            texts[i] = "1900-02-29" + texts[i][10:]
    formatted: list[str] = texts.tolist()
    return formatted


def _clock_text(ms: int) -> str:
    """Milliseconds as ``09:30:00`` or ``09:30:00.250``."""
    seconds, rest = divmod(ms, 1000)
    fraction = f".{rest:03d}" if rest else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"
