"""Cells of a chunk of rows, the fast way: by arrays of tags, for XML as spreadsheet programs write it.

The exact parser (``exact.py``) defines what is right; this one must give the same or refuse (``Unusual``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.sources.workbook.cells import Bytes, Cells, Int64s, Stored
from pipeline.sources.workbook.tokens import Mask, Tags, Unusual, number_at, slices, tags, text_of

_QUOTE, _SPACE, _SLASH = ord('"'), ord(" "), ord("/")
MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
"""Size of a sheet (the application's own limits)."""

# What a tag is, by its first letters.
_ROW, _ROW_END, _CELL, _CELL_END, _VALUE, _VALUE_END = range(1, 7)
_FORMULA, _FORMULA_END, _INLINE, _INLINE_END, _TEXT, _TEXT_END = range(7, 13)

_TYPES = {
    b"s": Stored.SHARED,
    b"n": Stored.NUMBER,
    b"b": Stored.BOOLEAN,
    b"e": Stored.ERROR,
    b"d": Stored.ISO_DATE,
}


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
    rows = _row_numbers(tags_, at_rows)
    row_of = np.searchsorted(at_rows, at) - 1
    if len(at) and row_of[0] < 0:
        raise Unusual("a cell outside of a row")
    heads = _heads(tags_, at, rows[row_of] if len(at) else rows[:0])
    content = _content(tags_, codes, at)
    open_rows = int((~tags_.closed[at_rows]).sum())
    if int(content.used.sum()) + len(at_rows) + open_rows != len(codes):
        raise Unusual("other elements")
    stored, begins, ends = _stored(heads, content)
    is_shared = stored == Stored.SHARED
    shared, after = number_at(tags_.buffer, begins[is_shared], 9)
    if (after != ends[is_shared]).any():
        raise Unusual("an index")
    has = np.flatnonzero((begins >= 0) & ~is_shared)
    return Cells(
        rows=rows,
        row_of=row_of,
        columns=heads.columns,
        stored=stored,
        styles=heads.styles,
        shared=shared,
        values=text_of(tags_, slices(tags_, begins[has], ends[has])),
    )


def _codes(tags_: Tags) -> Bytes:
    codes = _CODES[tags_.first, tags_.second]
    if not codes.all():
        raise Unusual("an unknown element")
    return codes


def _row_numbers(tags_: Tags, at: Int64s) -> Int64s:
    """Number of each row: ``<row r="12" …>``, each larger than the one before."""
    start = tags_.starts[at]
    _spelled(tags_.buffer, start, b'<row r="')
    numbers, after = number_at(tags_.buffer, start + 8, 7)
    wrong = (tags_.buffer[after] != _QUOTE).any() or (np.diff(numbers) <= 0).any()
    if wrong or (numbers > MOST_ROWS).any():
        raise Unusual("row numbers")
    return numbers


def _spelled(buffer: Bytes, places: Int64s, text: bytes) -> None:
    for offset, letter in enumerate(text):
        if (buffer[places + offset] != letter).any():
            raise Unusual(f"not {text!r}")


@dataclass(frozen=True, slots=True)
class _Heads:
    """What ``<c r="B4" s="3" t="s">`` says, one a cell. ``types``: see ``Stored``; 0 where it says none."""

    columns: npt.NDArray[np.int32]
    styles: npt.NDArray[np.int32]
    types: Bytes
    formula_text: Mask  # t="str"
    inline: Mask  # t="inlineStr"


def _heads(tags_: Tags, at: Int64s, rows: Int64s) -> _Heads:
    buffer, start = tags_.buffer, tags_.starts[at]
    _spelled(buffer, start, b'<c r="')
    place, columns = start + 6, np.zeros(len(at), np.int32)
    live = np.ones(len(at), np.bool_)
    for _ in range(3):
        letter = buffer[place].astype(np.int32)
        live &= (letter >= ord("A")) & (letter <= ord("Z"))
        columns = np.where(live, columns * 26 + letter - (ord("A") - 1), columns)
        place = place + live
    numbers, place = number_at(buffer, place, 7)
    if (numbers != rows).any() or (columns < 1).any() or (buffer[place] != _QUOTE).any():
        raise Unusual("a cell's place")
    styles, types = np.zeros(len(at), np.int32), np.zeros(len(at), np.uint8)
    text, inline = np.zeros(len(at), np.bool_), np.zeros(len(at), np.bool_)
    for _ in range(2):
        more = np.flatnonzero((buffer[place + 1] == _SPACE) & (buffer[place + 2] != _SLASH))
        if not len(more):
            break
        name = buffer[place[more] + 2]
        is_style, is_type = more[name == ord("s")], more[name == ord("t")]
        if len(is_style) + len(is_type) != len(more):
            raise Unusual("another attribute")
        _spelled(buffer, place[more] + 3, b'="')
        styles[is_style], place[is_style] = number_at(buffer, place[is_style] + 5, 6)
        _types(buffer, place, is_type, (types, text, inline))
    space = buffer[place + 1] == _SPACE  # "<c … />"
    if (tags_.ends[at] - place - tags_.closed[at] - space != 1).any() or (columns > MOST_COLUMNS).any():
        raise Unusual("another attribute")
    return _Heads(columns - 1, styles, types, text, inline)


def _types(buffer: Bytes, place: Int64s, cells: Int64s, into: tuple[Bytes, Mask, Mask]) -> None:
    """Read ``t="…"`` of the given cells; ``place`` moves to its closing quote."""
    types, text, inline = into
    at = place[cells] + 5
    letter, short = buffer[at], buffer[at + 1] == _QUOTE
    for name, stored in _TYPES.items():
        types[cells[short & (letter == name[0])]] = stored
    long = cells[~short]
    is_text = buffer[place[long] + 6] == ord("t")
    _spelled(buffer, place[long[is_text]] + 5, b'str"')
    _spelled(buffer, place[long[~is_text]] + 5, b'inlineStr"')
    text[long[is_text]], inline[long[~is_text]] = True, True
    types[long] = Stored.TEXT
    if (types[cells] == 0).any():
        raise Unusual("another type")
    place[cells] = at + 1
    place[long] += np.where(is_text, 2, 8)


@dataclass(frozen=True, slots=True)
class _Content:
    """What stands inside each cell: whether there is a formula, where the value begins and ends (-1: there is
    none), whether the value element is there but empty, whether it is inline text, and how many tags in all."""

    formula: Mask
    begins: Int64s
    ends: Int64s
    inline: Mask
    used: Int64s


def _content(tags_: Tags, codes: Bytes, at: Int64s) -> _Content:
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
    return _Content(formula, begins, ends, inline, next_ + inner - at)


def _follows(codes: Bytes, places: Int64s, code: int) -> None:
    if (codes[places] != code).any():
        raise Unusual("another order of elements")


def _stored(heads: _Heads, content: _Content) -> tuple[Bytes, Int64s, Int64s]:
    """How each value is stored, and where it begins and ends."""
    if (heads.inline != content.inline).any():
        raise Unusual("inline text and type disagree")
    begins, ends = content.begins, content.ends
    stored = heads.types.copy()
    has = begins >= 0
    stored[has & (stored == 0)] = Stored.NUMBER
    stored[heads.formula_text & content.formula] = Stored.FORMULA_TEXT
    # An empty value is a value for texts only.
    empty = ~has | ((begins == ends) & (heads.types != Stored.TEXT))
    stored[empty] = np.where(content.formula[empty], Stored.FORMULA_EMPTY, Stored.BLANK)
    return stored, np.where(empty, -1, begins), np.where(empty, -1, ends)
