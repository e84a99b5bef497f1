"""Cells of a chunk of rows by arrays of its tags, for sheet XML as spreadsheet programs write it.

Comparisons take eight bytes at a time: a word is eight bytes of the chunk as a little-endian number. ``any_cells``
defines the right result; this reader gives the same result or raises ``Unusual``.
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

# Opening tags of rows and cells: ``<row r="4" …>``, ``<c r="B4" s="3" t="s">``

Words = npt.NDArray[np.uint64]

MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
"""Largest sheet that Excel allows."""

_QUOTE, _A = b'"A'
FIRST_BYTES = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)
"""Masks of the first bytes of a word, by the number of bytes."""

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
_MOST_TAG_KINDS = 1000


def word_of(text: bytes) -> np.uint64:
    """Up to eight bytes as a word, filled with zeros."""
    return np.uint64(int.from_bytes(text, "little"))


def words_at(buffer: Bytes) -> Words:
    """The word at each offset of the chunk, without a copy."""
    return np.ndarray((len(buffer) - 7,), "<u8", buffer, strides=(1,))


@dataclass(frozen=True, slots=True)
class RowTags:
    """The opening tags of rows.

    Attributes:
        numbers: int64 [n], row numbers, ascending.
        digits: int64 [n], number of digits of each.
        spelled: uint64 [n], the digits and the quote after them as a word.
    """

    numbers: Int64s
    digits: Int64s
    spelled: Words


def read_row_tags(buffer: Bytes, starts: Int64s) -> RowTags:
    """Read ``<row r="12" …`` at each of the given offsets. Raises ``Unusual`` for anything else."""
    words = words_at(buffer)
    if (words[starts] != word_of(b'<row r="')).any():
        raise Unusual("a row without its number")
    numbers, after = number_at(buffer, starts + 8, 7)
    wrong = (buffer[after] != _QUOTE).any() or (np.diff(numbers) <= 0).any()
    if wrong or (numbers > MOST_ROWS).any():
        raise Unusual("row numbers")
    digits = after - starts - 8
    return RowTags(numbers, digits, words[starts + 8] & FIRST_BYTES[digits + 1])


@dataclass(frozen=True, slots=True)
class CellTags:
    """The opening tags of cells, one entry a cell.

    Attributes:
        columns, styles: int32, from 0.
        types: uint8, see ``StoredType``; 0 without a type.
        formula_text: bool, whether the type is ``str``.
        inline: bool, whether the type is ``inlineStr``.
        ends: int64, offset of ``>``.
        closed: bool, whether the tag closes itself.
    """

    columns: Int32s
    styles: Int32s
    types: Bytes
    formula_text: Mask
    inline: Mask
    ends: Int64s
    closed: Mask


def cell_tags(buffer: Bytes, starts: Int64s, row_tags: RowTags, row_of: Int64s) -> CellTags:
    """Read ``<c r="B4" s="3" t="s">`` at each of the given offsets.

    Raises ``Unusual`` for a reference to another row than the cell's own, and for anything else.
    """
    columns, offsets = _columns(buffer, starts)
    digits = row_tags.digits[row_of]
    if ((words_at(buffer)[offsets] & FIRST_BYTES[digits + 1]) != row_tags.spelled[row_of]).any():
        raise Unusual("a cell's place")
    return _attributes(buffer, columns, offsets + digits + 1)


def _attributes(buffer: Bytes, columns: Int32s, offsets: Int64s) -> CellTags:
    """Read the attributes after the reference of each cell.

    A sheet has few kinds of tags: each kind is parsed once, for all cells with the same bytes.
    """
    words, count, data = words_at(buffer), len(offsets), buffer.data
    styles, types, ends = np.zeros(count, np.int32), np.zeros(count, np.uint8), offsets.copy()
    formula_text, inline, closed = (np.zeros(count, np.bool_) for _ in range(3))
    remaining, word_at = np.arange(count), words[offsets]
    for _ in range(_MOST_TAG_KINDS):
        if not len(remaining):
            return CellTags(columns, styles, types, formula_text, inline, ends, closed)
        kind = _ATTRIBUTES.match(data, int(offsets[remaining[0]]))
        if kind is None:
            raise Unusual("another attribute")
        text = kind[0]
        same = word_at & FIRST_BYTES[min(len(text), 8)] == word_of(text[:8])
        for offset in range(8, len(text), 8):
            part = text[offset : offset + 8]
            near = np.flatnonzero(same)
            same[near] = words[offsets[remaining[near]] + offset] & FIRST_BYTES[len(part)] == word_of(part)
        cells = remaining[same]
        ends[cells] += len(text) - 1
        if style := kind["style"] or kind["style_"]:
            styles[cells] = int(style)
        if kind["type"]:
            types[cells] = _TYPES[kind["type"]]
            formula_text[cells], inline[cells] = kind["type"] == b"str", kind["type"] == b"inlineStr"
        if kind["close"]:
            closed[cells] = True
        remaining, word_at = remaining[~same], word_at[~same]
    raise Unusual("cells of too many kinds")


def _columns(buffer: Bytes, starts: Int64s) -> tuple[Int32s, Int64s]:
    """Column of each cell, and the offset after its letters."""
    opening = words_at(buffer)[starts]
    if ((opening & FIRST_BYTES[6]) != word_of(b'<c r="')).any():
        raise Unusual("a cell without its place")
    # Bytes that are not letters wrap to 26 and more.
    letters = opening.view(np.uint8).reshape(-1, 8)[:, 6:] - np.uint8(_A)
    columns: Int32s = letters[:, 0].astype(np.int32)
    offsets = starts + 7
    two = np.flatnonzero(letters[:, 1] < 26)
    if len(two):
        columns[two] = 26 * (columns[two] + 1) + letters[two, 1]
        third = buffer[starts[two] + 8] - np.uint8(_A)
        three = two[third < 26]
        columns[three] = 26 * (columns[three] + 1) + third[third < 26]
        offsets[two] += 1
        offsets[three] += 1
    if (letters[:, 0] > 25).any() or (columns >= MOST_COLUMNS).any():
        raise Unusual("a column")
    return columns, offsets


# Stored cells


@dataclass(frozen=True, slots=True)
class CellContents:
    """The contents of cells, one entry a cell.

    Attributes:
        formula: bool, whether the cell has a formula.
        begins, ends: int64, offsets of the value; -1 without a value. An empty element has an empty value.
        inline: bool, whether the value is inline text.
    """

    formula: Mask
    begins: Int64s
    ends: Int64s
    inline: Mask


def make_cells(
    data: bytes, buffer: Bytes, numbers: Int64s, row_of: Int64s, tags: CellTags, content: CellContents
) -> StoredCells:
    """The cells of a chunk. Raises ``Unusual`` if a tag and its content disagree."""
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
    """The stored type of each cell, and the offsets of its value."""
    if (tags.inline != content.inline).any():
        raise Unusual("inline text and type disagree")
    begins, ends = content.begins, content.ends
    stored = tags.types.copy()
    has = begins >= 0
    stored[has & (stored == 0)] = StoredType.NUMBER
    stored[tags.formula_text & content.formula] = StoredType.FORMULA_TEXT
    # An empty value is a value only of a text.
    empty = ~has | ((begins == ends) & (tags.types != StoredType.TEXT))
    stored[empty] = np.where(content.formula[empty], StoredType.FORMULA_EMPTY, StoredType.BLANK)
    return stored, np.where(empty, -1, begins), np.where(empty, -1, ends)


# Cells of a chunk

# Codes of tags.
_ROW, _ROW_END, _CELL, _CELL_END, _VALUE, _VALUE_END = range(1, 7)
_FORMULA, _FORMULA_END, _INLINE, _INLINE_END, _TEXT, _TEXT_END = range(7, 13)


def _code_table() -> Bytes:
    """Code of a tag by its first two bytes: uint8 [256, 256]."""
    table = np.zeros((256, 256), np.uint8)
    for letter, code in (("c", _CELL), ("v", _VALUE), ("f", _FORMULA), ("t", _TEXT)):
        table[ord(letter), list(b" >/")] = code
    for letters, code in (
        ("ro", _ROW),
        ("is", _INLINE),
        ("/c", _CELL_END),
        ("/v", _VALUE_END),
        ("/f", _FORMULA_END),
        ("/t", _TEXT_END),
        ("/r", _ROW_END),
        ("/i", _INLINE_END),
    ):
        table[ord(letters[0]), ord(letters[1])] = code
    return table


_CODES = _code_table()


def read_fast(chunk: bytes) -> StoredCells:
    """Cells of a chunk of whole ``<row>`` elements and ``PADDING``.

    Raises ``Unusual`` for anything that is not written the usual way.
    """
    tags = find_tags(chunk)
    codes = _tag_codes(tags)
    at_rows = np.flatnonzero(codes == _ROW)
    at_cells = np.flatnonzero(codes == _CELL)
    row_tags = read_row_tags(tags.buffer, tags.starts[at_rows])
    row_of = np.searchsorted(at_rows, at_cells) - 1
    if len(at_cells) and row_of[0] < 0:
        raise Unusual("a cell outside of a row")
    cells = cell_tags(tags.buffer, tags.starts[at_cells], row_tags, row_of)
    if (cells.ends != tags.ends[at_cells]).any():
        raise Unusual("another attribute")
    contents, tag_counts = _contents(tags, codes, at_cells)
    open_rows = int((~tags.closed[at_rows]).sum())
    if int(tag_counts.sum()) + len(at_rows) + open_rows != len(codes):
        raise Unusual("other elements")
    return make_cells(chunk, tags.buffer, row_tags.numbers, row_of, cells, contents)


def _tag_codes(tags: Tags) -> Bytes:
    codes = _CODES[tags.first, tags.second]
    if not codes.all():
        raise Unusual("an unknown element")
    return codes


def _contents(tags: Tags, codes: Bytes, at: Int64s) -> tuple[CellContents, Int64s]:
    """The contents of each cell, and its number of tags."""
    codes = np.concatenate([codes, np.zeros(8, np.uint8)])
    closed = np.concatenate([tags.closed, np.zeros(8, np.bool_)])
    inner = ~closed[at]
    next_ = at + 1
    formula = inner & (codes[next_] == _FORMULA)
    whole = formula & ~closed[next_]
    _require_code(codes, next_[whole] + 1, _FORMULA_END)
    next_ = next_ + formula + whole
    value = inner & (codes[next_] == _VALUE)
    filled = value & ~closed[next_]
    _require_code(codes, next_[filled] + 1, _VALUE_END)
    begins, ends = np.full(len(at), -1, np.int64), np.full(len(at), -1, np.int64)
    begins[value] = ends[value] = tags.ends[next_[value]] + 1  # "<v/>" is "<v></v>"
    ends[filled] = tags.starts[next_[filled] + 1]
    next_ = next_ + value + filled
    inline = inner & (codes[next_] == _INLINE)
    place = next_[inline]
    if closed[place].any() or closed[place + 1].any():
        raise Unusual("empty inline text")
    for offset, code in enumerate((_TEXT, _TEXT_END, _INLINE_END), 1):
        _require_code(codes, place + offset, code)
    begins[inline], ends[inline] = tags.ends[place + 1] + 1, tags.starts[place + 2]
    next_ = next_ + 4 * inline
    _require_code(codes, next_[inner], _CELL_END)
    return CellContents(formula, begins, ends, inline), next_ + inner - at


def _require_code(codes: Bytes, places: Int64s, code: int) -> None:
    if (codes[places] != code).any():
        raise Unusual("another order of elements")
