"""Cells of a chunk of rows by arrays of its tags, for XML as spreadsheet programs write it.

The exact parser (``exact.py``) defines what is right; this one must give the same or refuse (``Unusual``).
"""

from __future__ import annotations

import numpy as np

from pipeline.sources.workbook import content
from pipeline.sources.workbook.cells import Bytes, Cells, Int64s
from pipeline.sources.workbook.content import Content
from pipeline.sources.workbook.heads import cell_tags, rows
from pipeline.sources.workbook.tokens import Tags, Unusual, tags

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


def read(chunk: bytes) -> Cells:
    """Cells of a chunk that holds whole ``<row>`` elements, then ``PAD``, and nothing else.

    Raises ``Unusual`` for anything that is not written the usual way.
    """
    tags_ = tags(chunk)
    codes = _codes(tags_)
    at_rows = np.flatnonzero(codes == _ROW)
    at = np.flatnonzero(codes == _CELL)
    rows_ = rows(tags_.buffer, tags_.starts[at_rows])
    row_of = np.searchsorted(at_rows, at) - 1
    if len(at) and row_of[0] < 0:
        raise Unusual("a cell outside of a row")
    cell_tags_ = cell_tags(tags_.buffer, tags_.starts[at], rows_, row_of)
    if (cell_tags_.ends != tags_.ends[at]).any():
        raise Unusual("another attribute")
    inside, used = _content(tags_, codes, at)
    open_rows = int((~tags_.closed[at_rows]).sum())
    if int(used.sum()) + len(at_rows) + open_rows != len(codes):
        raise Unusual("other elements")
    return content.cells(chunk, tags_.buffer, rows_.numbers, row_of, cell_tags_, inside)


def _codes(tags_: Tags) -> Bytes:
    codes = _CODES[tags_.first, tags_.second]
    if not codes.all():
        raise Unusual("an unknown element")
    return codes


def _content(tags_: Tags, codes: Bytes, at: Int64s) -> tuple[Content, Int64s]:
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
    return Content(formula, begins, ends, inline), next_ + inner - at


def _follows(codes: Bytes, places: Int64s, code: int) -> None:
    if (codes[places] != code).any():
        raise Unusual("another order of elements")
