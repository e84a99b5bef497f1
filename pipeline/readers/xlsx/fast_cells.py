"""The fast way to the cells of a chunk of rows: by arrays of its tags.

Bytes are compared eight at a time: a word is eight bytes of the chunk, the first of them the lowest.

The exact parser (``exact.py``) defines what is right; this one must give the same or refuse (``Unusual``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.readers.xlsx.rows import StoredCells, StoredType
from pipeline.readers.xlsx.xml_tags import (
    Bytes,
    Int32s,
    Int64s,
    Mask,
    Tags,
    Unusual,
    character_data,
    find_tags,
    number_at,
    slice_bytes,
)

# The opening tags of rows and cells as spreadsheet programs write them: ``<row r="4" …>``, ``<c r="B4" s="3"
# t="s">``.


Words = npt.NDArray[np.uint64]

MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
"""Size of a sheet (the application's own limits)."""

_QUOTE, _A = b'"A'
FIRST = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)
"""Masks of the first bytes of a word, by how many."""

_TYPES = {
    b"s": StoredType.SHARED,
    b"n": StoredType.NUMBER,
    b"b": StoredType.BOOLEAN,
    b"e": StoredType.ERROR,
    b"d": StoredType.ISO_DATE,
    b"str": StoredType.TEXT,
    b"inlineStr": StoredType.TEXT,
}
_ATTRIBUTES = re.compile(
    rb'(?: s="(?P<style>[0-9]{1,6})")?(?: t="(?P<type>[snbed]|str|inlineStr)")?(?: s="(?P<style_>[0-9]{1,6})")?'
    rb" ?(?P<close>/?)>"
)
_MOST_KINDS = 1000


def word_of(text: bytes) -> np.uint64:
    """Up to eight bytes as a word, the others 0."""
    return np.uint64(int.from_bytes(text, "little"))


def words_at(buffer: Bytes) -> Words:
    """The word at each place of the chunk, without a copy."""
    return np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))


@dataclass(frozen=True, slots=True)
class RowTags:
    """Numbers of rows, one a row.

    Attributes:
        numbers: int64, ascending.
        digits: int64, how many digits each has.
        spelled: its digits and the quote after them, as a word.
    """

    numbers: Int64s
    digits: Int64s
    spelled: Words


def read_row_tags(buffer: Bytes, starts: Int64s) -> RowTags:
    """Read ``<row r="12" …`` at each of the given places. Raises ``Unusual`` for anything else."""
    at = words_at(buffer)
    if (at[starts] != word_of(b'<row r="')).any():
        raise Unusual("a row without its number")
    numbers, after = number_at(buffer, starts + 8, 7)
    wrong = (buffer[after] != _QUOTE).any() or (np.diff(numbers) <= 0).any()
    if wrong or (numbers > MOST_ROWS).any():
        raise Unusual("row numbers")
    digits = after - starts - 8
    return RowTags(numbers, digits, at[starts + 8] & FIRST[digits + 1])


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


def cell_tags(buffer: Bytes, starts: Int64s, rows_: RowTags, row_of: Int64s) -> CellTags:
    """Read ``<c r="B4" s="3" t="s">`` at each of the given places.

    Raises ``Unusual`` for another row than that which the cell stands in, and for anything else.
    """
    columns, place = _columns(buffer, starts)
    digits = rows_.digits[row_of]
    if ((words_at(buffer)[place] & FIRST[digits + 1]) != rows_.spelled[row_of]).any():
        raise Unusual("a cell's place")
    return _attributes(buffer, columns, place + digits + 1)


def _attributes(buffer: Bytes, columns: Int32s, place: Int64s) -> CellTags:
    """What stands in each tag behind the cell's place.

    A sheet has few kinds of cells: each kind is read once, and all cells with the same bytes are of that kind.
    """
    at, count, data = words_at(buffer), len(place), buffer.data
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
        same = word_at & FIRST[min(len(spelled), 8)] == word_of(spelled[:8])
        for offset in range(8, len(spelled), 8):
            part = spelled[offset : offset + 8]
            near = np.flatnonzero(same)
            same[near] = at[place[left[near]] + offset] & FIRST[len(part)] == word_of(part)
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
    opening = words_at(buffer)[starts]
    if ((opening & FIRST[6]) != word_of(b'<c r="')).any():
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


# From the places of values in a chunk to stored cells, however these places were found.


@dataclass(frozen=True, slots=True)
class CellContents:
    """What stands inside each cell.

    Attributes:
        formula: bool, whether there is a formula.
        begins, ends: int64, where the value begins and ends; -1: there is none. An empty element has an empty value.
        inline: bool, whether the value is inline text.
    """

    formula: Mask
    begins: Int64s
    ends: Int64s
    inline: Mask


def make_cells(
    data: bytes, buffer: Bytes, numbers: Int64s, row_of: Int64s, tags: CellTags, content: CellContents
) -> StoredCells:
    """The cells of a chunk. Raises ``Unusual`` where head and content disagree."""
    stored, begins, ends = _stored(tags, content)
    is_shared = stored == StoredType.SHARED
    shared, after = number_at(buffer, begins[is_shared], 9)
    if (after != ends[is_shared]).any():
        raise Unusual("an index")
    has = np.flatnonzero((begins >= 0) & ~is_shared)
    return StoredCells(
        rows=numbers,
        row_of=row_of,
        columns=tags.columns,
        stored=stored,
        styles=tags.styles,
        shared=shared,
        values=character_data(data, slice_bytes(data, begins[has], ends[has])),
    )


def _stored(tags: CellTags, content: CellContents) -> tuple[Bytes, Int64s, Int64s]:
    """How each value is stored, and where it begins and ends."""
    if (tags.inline != content.inline).any():
        raise Unusual("inline text and type disagree")
    begins, ends = content.begins, content.ends
    stored = tags.types.copy()
    has = begins >= 0
    stored[has & (stored == 0)] = StoredType.NUMBER
    stored[tags.formula_text & content.formula] = StoredType.FORMULA_TEXT
    # An empty value is a value for texts only.
    empty = ~has | ((begins == ends) & (tags.types != StoredType.TEXT))
    stored[empty] = np.where(content.formula[empty], StoredType.FORMULA_EMPTY, StoredType.BLANK)
    return stored, np.where(empty, -1, begins), np.where(empty, -1, ends)


# Cells of a chunk of rows by arrays of its tags, for XML as spreadsheet programs write it.


# What a tag is, by its first letters.
_ROW, _ROW_END, _CELL, _CELL_END, _VALUE, _VALUE_END = range(1, 7)
_FORMULA, _FORMULA_END, _INLINE, _INLINE_END, _TEXT, _TEXT_END = range(7, 13)


def _table() -> Bytes:
    """Code of a tag by its first two letters, uint8 [256, 256]."""
    table = np.zeros((256, 256), np.uint8)
    for letter, code in (("c", _CELL), ("v", _VALUE), ("f", _FORMULA), ("t", _TEXT)):
        table[ord(letter), list(b" >/")] = code
    for letters, code in (
        ("ro", _ROW), ("is", _INLINE), ("/c", _CELL_END), ("/v", _VALUE_END), ("/f", _FORMULA_END), ("/t", _TEXT_END),
        ("/r", _ROW_END), ("/i", _INLINE_END),
    ):  # fmt: skip
        table[ord(letters[0]), ord(letters[1])] = code
    return table


_CODES = _table()


def read_fast(chunk: bytes) -> StoredCells:
    """Cells of a chunk that holds whole ``<row>`` elements, then ``PAD``, and nothing else.

    Raises ``Unusual`` for anything that is not written the usual way.
    """
    tags_ = find_tags(chunk)
    codes = _codes(tags_)
    at_rows = np.flatnonzero(codes == _ROW)
    at = np.flatnonzero(codes == _CELL)
    rows_ = read_row_tags(tags_.buffer, tags_.starts[at_rows])
    row_of = np.searchsorted(at_rows, at) - 1
    if len(at) and row_of[0] < 0:
        raise Unusual("a cell outside of a row")
    cell_tags_ = cell_tags(tags_.buffer, tags_.starts[at], rows_, row_of)
    if (cell_tags_.ends != tags_.ends[at]).any():
        raise Unusual("another attribute")
    inside, used = _contents(tags_, codes, at)
    open_rows = int((~tags_.closed[at_rows]).sum())
    if int(used.sum()) + len(at_rows) + open_rows != len(codes):
        raise Unusual("other elements")
    return make_cells(chunk, tags_.buffer, rows_.numbers, row_of, cell_tags_, inside)


def _codes(tags_: Tags) -> Bytes:
    codes = _CODES[tags_.first, tags_.second]
    if not codes.all():
        raise Unusual("an unknown element")
    return codes


def _contents(tags_: Tags, codes: Bytes, at: Int64s) -> tuple[CellContents, Int64s]:
    """What stands inside each cell, and how many tags each has."""
    codes = np.concatenate([codes, np.zeros(8, np.uint8)])
    closed = np.concatenate([tags_.closed, np.zeros(8, np.bool_)])
    inner = ~closed[at]
    next_ = at + 1
    formula = inner & (codes[next_] == _FORMULA)
    whole = formula & ~closed[next_]
    _follows(codes, next_[whole] + 1, _FORMULA_END)
    next_ = next_ + formula + whole
    value = inner & (codes[next_] == _VALUE)
    filled = value & ~closed[next_]
    _follows(codes, next_[filled] + 1, _VALUE_END)
    begins, ends = np.full(len(at), -1, np.int64), np.full(len(at), -1, np.int64)
    begins[value] = ends[value] = tags_.ends[next_[value]] + 1  # "<v/>" is "<v></v>"
    ends[filled] = tags_.starts[next_[filled] + 1]
    next_ = next_ + value + filled
    inline = inner & (codes[next_] == _INLINE)
    place = next_[inline]
    if closed[place].any() or closed[place + 1].any():
        raise Unusual("empty inline text")
    for offset, code in enumerate((_TEXT, _TEXT_END, _INLINE_END), 1):
        _follows(codes, place + offset, code)
    begins[inline], ends[inline] = tags_.ends[place + 1] + 1, tags_.starts[place + 2]
    next_ = next_ + 4 * inline
    _follows(codes, next_[inner], _CELL_END)
    return CellContents(formula, begins, ends, inline), next_ + inner - at


def _follows(codes: Bytes, places: Int64s, code: int) -> None:
    if (codes[places] != code).any():
        raise Unusual("another order of elements")
