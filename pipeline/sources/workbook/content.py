"""From the places of values in a chunk to stored cells, however these places were found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.sources.workbook.cells import Bytes, Cells, Int64s, Mask, Stored
from pipeline.sources.workbook.heads import CellTags
from pipeline.sources.workbook.tokens import Unusual, number_at, slices, text_of


@dataclass(frozen=True, slots=True)
class Content:
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


def cells(
    data: bytes, buffer: Bytes, numbers: Int64s, row_of: Int64s, tags: CellTags, content: Content
) -> Cells:
    """The cells of a chunk. Raises ``Unusual`` where head and content disagree."""
    stored, begins, ends = _stored(tags, content)
    is_shared = stored == Stored.SHARED
    shared, after = number_at(buffer, begins[is_shared], 9)
    if (after != ends[is_shared]).any():
        raise Unusual("an index")
    has = np.flatnonzero((begins >= 0) & ~is_shared)
    return Cells(
        rows=numbers,
        row_of=row_of,
        columns=tags.columns,
        stored=stored,
        styles=tags.styles,
        shared=shared,
        values=text_of(data, slices(data, begins[has], ends[has])),
    )


def _stored(tags: CellTags, content: Content) -> tuple[Bytes, Int64s, Int64s]:
    """How each value is stored, and where it begins and ends."""
    if (tags.inline != content.inline).any():
        raise Unusual("inline text and type disagree")
    begins, ends = content.begins, content.ends
    stored = tags.types.copy()
    has = begins >= 0
    stored[has & (stored == 0)] = Stored.NUMBER
    stored[tags.formula_text & content.formula] = Stored.FORMULA_TEXT
    # An empty value is a value for texts only.
    empty = ~has | ((begins == ends) & (tags.types != Stored.TEXT))
    stored[empty] = np.where(content.formula[empty], Stored.FORMULA_EMPTY, Stored.BLANK)
    return stored, np.where(empty, -1, begins), np.where(empty, -1, ends)
