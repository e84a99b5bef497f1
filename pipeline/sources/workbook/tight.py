"""Cells of a chunk of rows, the fastest way: for rows without a gap between their elements, as nearly all programs
write them.

A cell then ends where the next one or the row's end begins, so that only cells and rows are looked for, and what
stands inside is told by the bytes at both ends. Every ``<`` of the chunk must be accounted for in the end: whatever
else there may be is refused.
"""

from __future__ import annotations

import numpy as np

from pipeline.sources.workbook import content
from pipeline.sources.workbook.cells import Bytes, Cells, Int64s
from pipeline.sources.workbook.content import Content
from pipeline.sources.workbook.heads import FIRST, Heads, Words, heads, rows, word, words
from pipeline.sources.workbook.kernels import Mask
from pipeline.sources.workbook.tokens import Unusual

_LT, _GT, _SLASH, _C, _R = b"<>/cr"
_PRESERVED = b'<is><t xml:space="preserve">'
_BLANK = len(b"</c>")
_VALUE = len(b"</v></c>")
_TEXT = len(b"</t></is></c>")


def read(chunk: bytes, size: int) -> Cells:
    """Cells of a chunk whose first ``size`` bytes are whole ``<row>`` elements and nothing else.

    What follows them, at least ``PAD``, is not looked at but for the sake of speed. Raises ``Unusual`` for anything
    that is not written so.
    """
    buffer = np.frombuffer(chunk, np.uint8)
    opens = buffer[:size] == _LT
    second = buffer[1 : size + 1]
    both = np.flatnonzero(opens & ((second == _C) | (second == _R)))
    is_row = second[both] == _R
    at, at_rows = both[~is_row], both[is_row]
    if not len(at_rows) or at_rows[0] != 0:
        raise Unusual("no rows")
    rows_ = rows(buffer, at_rows)
    first = np.searchsorted(at, at_rows)
    counts = np.diff(first, append=len(at))
    ends, row_tags = _ends(buffer, at, at_rows, size, first, counts)
    row_of = np.repeat(np.arange(len(at_rows)), counts)
    heads_ = heads(buffer, at, rows_, row_of)
    inside, cell_tags = _content(buffer, heads_, ends, opens)
    if row_tags + cell_tags != np.count_nonzero(opens):
        raise Unusual("other elements")
    return content.cells(chunk, buffer, rows_.numbers, row_of, heads_, inside)


def _ends(
    buffer: Bytes, at: Int64s, at_rows: Int64s, size: int, first: Int64s, counts: Int64s
) -> tuple[Int64s, int]:
    """Where each cell ends, and how many tags the rows have. ``first``, ``counts``: first cell of a row, how many."""
    row_ends = np.append(at_rows[1:], size)
    tail = words(buffer)[row_ends - 8]
    whole = (tail >> np.uint64(16)) == word(b"</row>")
    filled = counts > 0
    before = at[first[filled]]
    opened = (buffer[before - 1] == _GT) & (buffer[before - 2] != _SLASH)
    if not opened.all() or not (whole | (~filled & ((tail >> np.uint64(48)) == word(b"/>")))).all():
        raise Unusual("a gap between rows")
    ends = np.append(at[1:], 0)
    ends[(first + counts - 1)[filled]] = row_ends[filled] - len(b"</row>")
    return ends, len(at_rows) + int(whole.sum())


def _content(buffer: Bytes, heads_: Heads, ends: Int64s, opens: Mask) -> tuple[Content, int]:
    """What stands inside each cell, and how many tags the cells have."""
    at, inner = words(buffer), ~heads_.closed
    tail, start = at[ends - 8], heads_.ends + 1
    if ((start != ends) & heads_.closed).any() or ((tail >> np.uint64(32) != word(b"</c>")) & inner).any():
        raise Unusual("a gap between cells")
    head = at[start]
    tags = len(ends) + int(inner.sum())
    formula = (head & FIRST[2] == word(b"<f")) & inner
    if formula.any():
        tags += _formulas(buffer, opens, start, np.flatnonzero(formula))
        head = at[start]
    value = (
        (tail == word(b"</v></c>")) & (head & FIRST[3] == word(b"<v>")) & inner & (start + 3 + _VALUE <= ends)
    )
    inline = (tail == word(b"/is></c>")) & inner
    begins, stops = np.where(value, start + 3, -1), np.where(value, ends - _VALUE, -1)
    texts = np.flatnonzero(inline)
    begins[texts], stops[texts] = _inline(at, start[texts], ends[texts], head[texts])
    rest = np.flatnonzero(inner & ~value & ~inline)
    left = (ends - _BLANK - start)[rest]
    empty = ((left == 4) & (head[rest] & FIRST[4] == word(b"<v/>"))) | (
        (left == 5) & (head[rest] & FIRST[5] == word(b"<v />"))
    )
    if (~empty & (left != 0)).any():
        raise Unusual("another order of elements")
    begins[rest[empty]] = stops[rest[empty]] = ends[rest[empty]]
    tags += 2 * int(value.sum()) + 4 * len(texts) + int(empty.sum())
    return Content(formula, begins, stops, inline), tags


def _formulas(buffer: Bytes, opens: Mask, start: Int64s, cells: Int64s) -> int:
    """Move ``start`` of the given cells behind their formula; how many tags these have."""
    at, here = words(buffer), start[cells]
    if not np.isin(buffer[here + 2], list(b" >/")).all():
        raise Unusual("an unknown element")
    every = np.flatnonzero(opens)
    next_ = every[np.searchsorted(every, here) + 1]
    whole = at[next_] & FIRST[4] == word(b"</f>")
    closed = (buffer[next_ - 1] == _GT) & (buffer[next_ - 2] == _SLASH)
    if not (whole | closed).all():
        raise Unusual("an element inside a formula")
    start[cells] = next_ + 4 * whole
    return len(cells) + int(whole.sum())


def _inline(at: Words, start: Int64s, ends: Int64s, head: Words) -> tuple[Int64s, Int64s]:
    """Where inline texts begin and end."""
    begins = start + 7
    other = np.flatnonzero(head & FIRST[7] != word(b"<is><t>"))
    if len(other):
        for offset in range(0, len(_PRESERVED), 8):
            part = _PRESERVED[offset : offset + 8]
            if (at[start[other] + offset] & FIRST[len(part)] != word(part)).any():
                raise Unusual("another inline text")
        begins[other] = start[other] + len(_PRESERVED)
    stops = ends - _TEXT
    if (at[stops] != word(b"</t></is")).any() or (begins > stops).any():
        raise Unusual("another inline text")
    return begins, stops
