"""The opening tags of rows and cells as spreadsheet programs write them: ``<row r="4" …>``, ``<c r="B4" s="3" t="s">``.

Bytes are compared eight at a time: a word is eight bytes of the chunk, the first of them the lowest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.sources.workbook.cells import Bytes, Int32s, Int64s, Stored
from pipeline.sources.workbook.tokens import Mask, Unusual, number_at

Words = npt.NDArray[np.uint64]

MOST_COLUMNS, MOST_ROWS = 16_384, 1_048_576
"""Size of a sheet (the application's own limits)."""

_QUOTE, _SPACE, _SLASH, _GT, _A = b'" />A'
FIRST = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)
"""Masks of the first bytes of a word, by how many."""

_TYPES = np.zeros(256, np.uint8)
for _letter, _stored in (
    (b"s", Stored.SHARED), (b"n", Stored.NUMBER), (b"b", Stored.BOOLEAN), (b"e", Stored.ERROR), (b"d", Stored.ISO_DATE),
):  # fmt: skip
    _TYPES[_letter[0]] = _stored


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
class Heads:
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


def heads(buffer: Bytes, starts: Int64s, rows_: Rows, row_of: Int64s) -> Heads:
    """Read ``<c r="B4" s="3" t="s">`` at each of the given places.

    Raises ``Unusual`` for another row than that which the cell stands in, and for anything else.
    """
    at = words(buffer)
    columns, place = _columns(buffer, starts)
    digits = rows_.digits[row_of]
    if ((at[place] & FIRST[digits + 1]) != rows_.spelled[row_of]).any():
        raise Unusual("a cell's place")
    place += digits
    styles, types = np.zeros(len(starts), np.int32), np.zeros(len(starts), np.uint8)
    text, inline = np.zeros(len(starts), np.bool_), np.zeros(len(starts), np.bool_)
    more = np.flatnonzero(buffer[place + 1] == _SPACE)
    for _ in range(2):
        said = at[place[more] + 1]
        name = said & FIRST[4]
        is_style, is_type = name == word(b' s="'), name == word(b' t="')
        styled = more[is_style]
        if len(styled):
            styles[styled], place[styled] = number_at(buffer, place[styled] + 5, 6)
            if (buffer[place[styled]] != _QUOTE).any():
                raise Unusual("a style")
        _types(at, place, more[is_type], said[is_type], (types, text, inline))
        more = more[is_style | is_type]
        more = more[buffer[place[more] + 1] == _SPACE]
        if not len(more):
            break
    ends = place + 1
    ends += buffer[ends] == _SPACE  # "<c … />"
    closed = buffer[ends] == _SLASH
    ends += closed
    if (buffer[ends] != _GT).any():
        raise Unusual("another attribute")
    return Heads(columns, styles, types, text, inline, ends, closed)


def _columns(buffer: Bytes, starts: Int64s) -> tuple[Int32s, Int64s]:
    """Column of each cell, and the place after its letters."""
    said = words(buffer)[starts]
    if ((said & FIRST[6]) != word(b'<c r="')).any():
        raise Unusual("a cell without its place")
    letters = said.view(np.uint8).reshape(-1, 8)[:, 6:] - np.uint8(
        _A
    )  # what is no letter wraps to 26 and more
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


def _types(at: Words, place: Int64s, cells: Int64s, said: Words, into: tuple[Bytes, Mask, Mask]) -> None:
    """Take ``t="…"`` of the given cells as it is said; ``place`` moves to its closing quote."""
    types, text, inline = into
    short = (said >> np.uint64(40)) & np.uint64(255) == _QUOTE
    types[cells[short]] = _TYPES[(said[short] >> np.uint64(32)) & np.uint64(255)]
    place[cells] += 6
    if not short.all():
        long, rest = cells[~short], said[~short] >> np.uint64(32)
        is_text = rest == word(b'str"')
        others = long[~is_text]
        if (rest[~is_text] != word(b"inli")).any() or (
            at[place[others] + 3] & FIRST[6] != word(b'neStr"')
        ).any():
            raise Unusual("another type")
        text[long[is_text]], inline[others] = True, True
        types[long] = Stored.TEXT
        place[long] += np.where(is_text, 2, 8)
    if (types[cells] == 0).any():
        raise Unusual("another type")
