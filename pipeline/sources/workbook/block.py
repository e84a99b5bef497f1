"""Rows with their cells by column, blank rows gone, merged areas filled where that is declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.sources.workbook.flat import replaced
from pipeline.sources.workbook.placed import Placed

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Block:
    """Records: rows that have something in at least one of the first ``width`` columns.

    Attributes:
        rows: int64 [n], number of each row.
        columns: string [n] each, null for a blank cell.
        marks: (index of the row, column, reason slug, found), sorted.
    """

    rows: Int64s
    columns: list[pa.StringArray]
    marks: list[tuple[int, int, str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Area:
    """A merged area, rows from 1 and columns from 0, ends included."""

    top: int
    left: int
    bottom: int
    right: int


class Blocks:
    """Makes blocks of ``width`` columns of placed cells, rows up to ``below`` left out."""

    def __init__(self, width: int, below: int, areas: Sequence[Area] = ()) -> None:
        self._width, self._below = width, below
        self._areas = sorted(
            (a for a in areas if a.left < width and a.bottom > below), key=lambda a: (a.top, a.left)
        )
        self._anchors: dict[Area, str | None] = {}

    def __call__(self, placed: Placed) -> Block:
        marked = np.zeros(len(placed.row_of), np.bool_)
        marked[placed.mark_at] = True
        inside = placed.columns < self._width
        self._remember(placed)
        keep = np.flatnonzero((placed.filled | marked) & inside & (placed.rows[placed.row_of] > self._below))
        alive = np.zeros(len(placed.rows), np.bool_)
        alive[placed.row_of[keep]] = True
        new_row = np.cumsum(alive) - 1
        rows = placed.rows[alive]
        columns = self._columns(placed, keep, new_row, len(rows))
        marks = self._marks(placed, keep, new_row)
        if self._areas:
            marks += self._fill(rows, columns)
        return Block(rows, columns, sorted(marks))

    def _columns(self, placed: Placed, keep: Int64s, new_row: Int64s, count: int) -> list[pa.StringArray]:
        keep = keep[placed.filled[keep]]
        row_of = new_row[placed.row_of[keep]]
        if len(keep) == count * self._width:  # most often each row has all its cells
            grid = (count, self._width)
            in_place = (placed.columns[keep].reshape(grid) == np.arange(self._width)).all()
            if in_place and (row_of.reshape(grid) == np.arange(count)[:, None]).all():
                return [placed.take(keep[column :: self._width]) for column in range(self._width)]
        of = placed.columns[keep].astype(np.int16)  # no sheet has more columns; sorted by radix
        order = np.argsort(of, kind="stable")
        edges = np.searchsorted(of[order], np.arange(self._width + 1))
        columns = []
        for column in range(self._width):
            cells = order[edges[column] : edges[column + 1]]
            index = np.full(count, -1, np.int64)
            index[row_of[cells]] = keep[cells]
            columns.append(placed.take(index))
        return columns

    def _marks(self, placed: Placed, keep: Int64s, new_row: Int64s) -> list[tuple[int, int, str, str]]:
        kept = np.zeros(len(placed.row_of), np.bool_)
        kept[keep] = True
        return [
            (int(new_row[placed.row_of[at]]), int(placed.columns[at]), reason, found)
            for at, reason, found in zip(placed.mark_at.tolist(), placed.reasons, placed.found, strict=True)
            if kept[at]
        ]

    def _remember(self, placed: Placed) -> None:
        """Keep the text of each merged area whose first cell is among these cells."""
        if not self._areas or not len(placed.rows):
            return
        first, last = int(placed.rows[0]), int(placed.rows[-1])
        wanted = {(a.top, a.left): a for a in self._areas if first <= a.top <= last}
        if not wanted:
            return
        near = np.isin(placed.columns, [left for _, left in wanted]) & placed.filled
        near &= np.isin(placed.rows[placed.row_of], [top for top, _ in wanted])
        for at in np.flatnonzero(near).tolist():
            area = wanted.get((int(placed.rows[placed.row_of[at]]), int(placed.columns[at])))
            if area is not None:
                self._anchors[area] = placed.text(at)

    def _fill(self, rows: Int64s, columns: list[pa.StringArray]) -> list[tuple[int, int, str, str]]:
        """Fill merged areas from their first cell, within rows that are records anyway."""
        changes: dict[int, dict[int, str]] = {}
        for area in self._areas:
            text = self._anchors.get(area)
            if text is None:
                continue
            here = range(
                int(np.searchsorted(rows, area.top)), int(np.searchsorted(rows, area.bottom, side="right"))
            )
            for column in range(area.left, min(area.right + 1, self._width)):
                for row in here:
                    if (int(rows[row]), column) != (area.top, area.left):
                        changes.setdefault(column, {})[row] = text
        marks = []
        for column, texts in changes.items():
            places = sorted(row for row in texts if not columns[column][row].is_valid)
            new = pa.array([texts[row] for row in places], pa.string())
            columns[column] = replaced(columns[column], np.array(places, np.int64), new)
            marks += [(row, column, "merged_cell_filled", "") for row in places]
        return marks


def batches(blocks: Iterator[Block], most_rows: int, most_bytes: int) -> Iterator[Block]:
    """The same rows in blocks of ``most_rows``, or fewer where these would be larger than ``most_bytes``.

    Where a block ends depends on the rows alone, not on how they came.
    """
    held: list[Block] = []
    count = 0
    for block in blocks:
        if len(block):
            held.append(block)
            count += len(block)
        while count >= most_rows:
            whole = _joined(held)
            yield from _cut(_part(whole, 0, most_rows), most_bytes)
            held, count = [_part(whole, most_rows, len(whole))], count - most_rows
    if count:
        yield from _cut(_joined(held), most_bytes)


def _cut(block: Block, most_bytes: int) -> Iterator[Block]:
    """Halve a block until its parts are small enough."""
    size = sum(column.nbytes for column in block.columns)
    if size <= most_bytes or len(block) == 1:
        yield block
        return
    middle = len(block) // 2
    yield from _cut(_part(block, 0, middle), most_bytes)
    yield from _cut(_part(block, middle, len(block)), most_bytes)


def _joined(blocks: Sequence[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    marks, start = [], 0
    for block in blocks:
        marks += [(row + start, *rest) for row, *rest in block.marks]
        start += len(block)
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in blocks), strict=True)]
    return Block(np.concatenate([b.rows for b in blocks]), columns, marks)  # type: ignore[arg-type]


def _part(block: Block, start: int, end: int) -> Block:
    columns = [column.slice(start, end - start) for column in block.columns]
    marks = [(row - start, *rest) for row, *rest in block.marks if start <= row < end]
    return Block(block.rows[start:end], columns, marks)  # type: ignore[arg-type]
