"""The opening tags of rows and cells as spreadsheet programs write them: ``<row r="4" …>``, ``<c r="B4" s="3" t="s">``.

Bytes are compared eight at a time: a word is eight bytes of the chunk, the first of them the lowest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.sources.workbook.cells import Bytes, Int32s, Int64s, Mask, Stored
from pipeline.sources.workbook.tokens import Unusual, number_at

Words = npt.NDArray[np.uint64]

MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
"""Size of a sheet (the application's own limits)."""

_QUOTE, _A = b'"A'
FIRST = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)
"""Masks of the first bytes of a word, by how many."""

_TYPES = {
    b"s": Stored.SHARED,
    b"n": Stored.NUMBER,
    b"b": Stored.BOOLEAN,
    b"e": Stored.ERROR,
    b"d": Stored.ISO_DATE,
    b"str": Stored.TEXT,
    b"inlineStr": Stored.TEXT,
}
_ATTRIBUTES = re.compile(
    rb'(?: s="(?P<style>[0-9]{1,6})")?(?: t="(?P<type>[snbed]|str|inlineStr)")?(?: s="(?P<style_>[0-9]{1,6})")?'
    rb" ?(?P<close>/?)>"
)
_MOST_KINDS = 1000


def word(text: bytes) -> np.uint64:
    """Up to eight bytes as a word, the others 0."""
    return np.uint64(int.from_bytes(text, "little"))


def words(buffer: Bytes) -> Words:
    """The word at each place of the chunk, without a copy."""
    return np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))


@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers of rows, one a row.

    Attributes:
        numbers: int64, ascending.
        digits: int64, how many digits each has.
        spelled: its digits and the quote after them, as a word.
    """

    numbers: Int64s
    digits: Int64s
    spelled: Words


def rows(buffer: Bytes, starts: Int64s) -> Rows:
    """Read ``<row r="12" …`` at each of the given places. Raises ``Unusual`` for anything else."""
    at = words(buffer)
    if (at[starts] != word(b'<row r="')).any():
        raise Unusual("a row without its number")
    numbers, after = number_at(buffer, starts + 8, 7)
    wrong = (buffer[after] != _QUOTE).any() or (np.diff(numbers) <= 0).any()
    if wrong or (numbers > MOST_ROWS).any():
        raise Unusual("row numbers")
    digits = after - starts - 8
    return Rows(numbers, digits, at[starts + 8] & FIRST[digits + 1])


@dataclass(frozen=True, slots=True)
class CellTags:
    """What the opening tags of cells say, one a cell.

    Attributes:
        columns, styles: from 0.
        types: see ``Stored``; 0 where it says none.
        formula_text: whether it says ``t="str"``.
        inline: whether it says ``t="inlineStr"``.
        ends: int64, place of ``>``.
        closed: whether the tag closes itself.
    """

    columns: Int32s
    styles: Int32s
    types: Bytes
    formula_text: Mask
    inline: Mask
    ends: Int64s
    closed: Mask


def cell_tags(buffer: Bytes, starts: Int64s, rows_: Rows, row_of: Int64s) -> CellTags:
    """Read ``<c r="B4" s="3" t="s">`` at each of the given places.

    Raises ``Unusual`` for another row than that which the cell stands in, and for anything else.
    """
    columns, place = _columns(buffer, starts)
    digits = rows_.digits[row_of]
    if ((words(buffer)[place] & FIRST[digits + 1]) != rows_.spelled[row_of]).any():
        raise Unusual("a cell's place")
    return _attributes(buffer, columns, place + digits + 1)


def _attributes(buffer: Bytes, columns: Int32s, place: Int64s) -> CellTags:
    """What stands in each tag behind the cell's place.

    A sheet has few kinds of cells: each kind is read once, and all cells with the same bytes are of that kind.
    """
    at, count, data = words(buffer), len(place), buffer.data
    styles, types, ends = np.zeros(count, np.int32), np.zeros(count, np.uint8), place.copy()
    text, inline, closed = (np.zeros(count, np.bool_) for _ in range(3))
    left, word_at = np.arange(count), at[place]
    for _ in range(_MOST_KINDS):
        if not len(left):
            return CellTags(columns, styles, types, text, inline, ends, closed)
        kind = _ATTRIBUTES.match(data, int(place[left[0]]))
        if kind is None:
            raise Unusual("another attribute")
        spelled = kind[0]
        same = word_at & FIRST[min(len(spelled), 8)] == word(spelled[:8])
        for offset in range(8, len(spelled), 8):
            part = spelled[offset : offset + 8]
            near = np.flatnonzero(same)
            same[near] = at[place[left[near]] + offset] & FIRST[len(part)] == word(part)
        cells = left[same]
        ends[cells] += len(spelled) - 1
        if style := kind["style"] or kind["style_"]:
            styles[cells] = int(style)
        if kind["type"]:
            types[cells] = _TYPES[kind["type"]]
            text[cells], inline[cells] = kind["type"] == b"str", kind["type"] == b"inlineStr"
        if kind["close"]:
            closed[cells] = True
        left, word_at = left[~same], word_at[~same]
    raise Unusual("cells of too many kinds")


def _columns(buffer: Bytes, starts: Int64s) -> tuple[Int32s, Int64s]:
    """Column of each cell, and the place after its letters."""
    opening = words(buffer)[starts]
    if ((opening & FIRST[6]) != word(b'<c r="')).any():
        raise Unusual("a cell without its place")
    # What is no letter wraps to 26 and more.
    letters = opening.view(np.uint8).reshape(-1, 8)[:, 6:] - np.uint8(_A)
    columns: Int32s = letters[:, 0].astype(np.int32)
    place = starts + 7
    two = np.flatnonzero(letters[:, 1] < 26)
    if len(two):
        columns[two] = 26 * (columns[two] + 1) + letters[two, 1]
        third = buffer[starts[two] + 8] - np.uint8(_A)
        three = two[third < 26]
        columns[three] = 26 * (columns[three] + 1) + third[third < 26]
        place[two] += 1
        place[three] += 1
    if (letters[:, 0] > 25).any() or (columns >= MOST_COLUMNS).any():
        raise Unusual("a column")
    return columns, place
