"""Cells of consecutive rows: as stored, with their texts, and by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.readers.xlsx.strings import LONGEST_CELL, TextPool, text_pool
from pipeline.readers.xlsx.xml_tags import Bytes, Int32s, Int64s, Mask, replaced

# Stored cells of consecutive rows, as arrays: what both XML readers deliver.


class StoredType(IntEnum):
    """How a cell's value is stored (ECMA-376 part 1, 18.18.11)."""

    BLANK = 0
    NUMBER = 1
    SHARED = 2  # index into the shared texts
    TEXT = 3  # the text itself
    BOOLEAN = 4
    ERROR = 5
    ISO_DATE = 6
    FORMULA_EMPTY = 7  # a formula without a stored value
    INVALID = 8  # of no known type
    FORMULA_TEXT = 9  # the text that a formula gave

    @property
    def is_text(self) -> bool:
        """Whether an empty value is a value, too."""
        return self in (StoredType.TEXT, StoredType.FORMULA_TEXT)


@dataclass(frozen=True, slots=True)
class StoredCells:
    """Cells of consecutive rows.

    Attributes:
        rows: int64 [n], number of each row, from 1.
        row_of: int64 [m], index into ``rows`` of each cell.
        columns: int32 [m], from 0 for column A.
        stored: uint8 [m], see ``Stored``.
        styles: int32 [m], index of the cell's style.
        shared: int64 [s], for the cells that are ``SHARED``, in their order: index of the text; -1 for none such.
        values: string [v], for all other cells that have a value, in their order: the value as it is stored.
    """

    rows: Int64s
    row_of: Int64s
    columns: Int32s
    stored: Bytes
    styles: Int32s
    shared: Int64s
    values: pa.StringArray

    def valued(self) -> Int64s:
        """Indices of the cells that ``values`` belongs to, int64 [v]."""
        none = (self.stored == StoredType.BLANK) | (self.stored == StoredType.FORMULA_EMPTY)
        return np.flatnonzero(~(none | (self.stored == StoredType.SHARED)))


# Cells with their texts, wherever they lie: what the reader of a sheet delivers, whatever the format.


@dataclass(frozen=True, slots=True)
class CellTexts:
    """Cells of consecutive rows.

    Attributes:
        rows: int64 [n], number of each row, from 1, ascending.
        row_of, columns: int64 [m], int32 [m], place of each cell; columns from 0.
        pools: the texts.
        pool_of, index: uint8 [m], int64 [m], which text each cell has; index -1 for none.
        filled: bool [m], whether a cell has a text that is not "".
        mark_at: int64 [k], index of the cell that each mark is about.
        reasons, found: what each mark says.
    """

    rows: Int64s
    row_of: Int64s
    columns: Int32s
    pools: list[TextPool]
    pool_of: npt.NDArray[np.uint8]
    index: Int64s
    filled: Mask
    mark_at: Int64s
    reasons: list[str]
    found: list[str]
    _joined: dict[tuple[int, ...], tuple[pa.StringArray, Int64s]] = field(default_factory=dict)

    def text(self, cell: int) -> str | None:
        """Text of one cell."""
        if self.index[cell] < 0:
            return None
        text: str | None = self.pools[self.pool_of[cell]].texts[int(self.index[cell])].as_py()
        return text

    def take(self, cells: Int64s) -> pa.StringArray:
        """Texts of the given cells (int64 [k]); null for an index of -1."""
        if not len(self.index):
            return pa.nulls(len(cells), pa.string())
        index = np.where(cells >= 0, self.index[cells], -1)
        pool_of = self.pool_of[cells]
        used = tuple(np.flatnonzero(np.bincount(pool_of[index >= 0])).tolist())
        if not used:
            return pa.nulls(len(cells), pa.string())
        texts, starts = self._together(used)
        if len(used) > 1:
            index = np.where(index >= 0, index + starts[pool_of], -1)
        return texts.take(pa.array(index, mask=index < 0))

    def _together(self, used: tuple[int, ...]) -> tuple[pa.StringArray, Int64s]:
        """The texts of some pools, and where those of each pool begin."""
        if used not in self._joined:
            pools = [self.pools[pool] for pool in used]
            texts = pools[0].texts if len(pools) == 1 else pa.concat_arrays([pool.texts for pool in pools])
            starts = np.zeros(len(self.pools), np.int64)
            starts[list(used)] = np.cumsum([0, *(len(pool) for pool in pools[:-1])])
            self._joined[used] = texts, starts
        return self._joined[used]


class CellTextsBuilder:
    """Puts texts and marks on cells, then makes them ``Placed``."""

    def __init__(self, rows: Int64s, row_of: Int64s, columns: Int32s) -> None:
        self._rows, self._row_of, self._columns = rows, row_of, columns
        self._pools: list[TextPool] = []
        self._pool_of = np.zeros(len(row_of), np.uint8)
        self._index = np.full(len(row_of), -1, np.int64)
        self._filled = np.zeros(len(row_of), np.bool_)
        self._at: list[Int64s] = []
        self._reasons: list[str] = []
        self._found: list[str] = []

    def place(self, cells: Int64s, pool: TextPool, index: Int64s) -> None:
        """Give cells (int64 [k]) the texts of a pool by their index (int64 [k])."""
        self._pool_of[cells] = len(self._pools)
        self._pools.append(pool)
        self._index[cells] = index
        self._filled[cells] = ~pool.blank[index]
        self.mark(cells[pool.escaped[index]], "cell_escape_decoded")
        self.mark(cells[pool.full[index]], "possibly_truncated_at_source", str(LONGEST_CELL))

    def write(self, cells: Int64s, texts: pa.StringArray, escaped: Mask | None = None) -> None:
        """Give cells (int64 [k]) texts of their own (string [k]), of which some had escapes."""
        if len(cells):
            self.place(cells, text_pool(texts, escaped), np.arange(len(cells)))

    def mark(self, cells: Int64s, reason: str, found: str | Sequence[str] = "") -> None:
        """Say something of cells: a reason's slug, and what was found, once or for each."""
        if len(cells):
            self._at.append(cells)
            self._reasons += [reason] * len(cells)
            self._found += [found] * len(cells) if isinstance(found, str) else found

    def done(self) -> CellTexts:
        at = np.concatenate(self._at) if self._at else np.zeros(0, np.int64)
        return CellTexts(
            self._rows, self._row_of, self._columns, self._pools, self._pool_of, self._index, self._filled,
            at, self._reasons, self._found,
        )  # fmt: skip


# Rows with their cells by column, blank rows gone, merged areas filled where that is declared.


@dataclass(frozen=True, slots=True)
class RowBlock:
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


class RowBlockBuilder:
    """Makes blocks of ``width`` columns of placed cells, rows up to ``below`` left out."""

    def __init__(self, width: int, below: int, areas: Sequence[Area] = ()) -> None:
        self._width, self._below = width, below
        self._areas = sorted(
            (a for a in areas if a.left < width and a.bottom > below), key=lambda a: (a.top, a.left)
        )
        self._anchors: dict[Area, str | None] = {}

    def __call__(self, placed: CellTexts) -> RowBlock:
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
        return RowBlock(rows, columns, sorted(marks))

    def _columns(self, placed: CellTexts, keep: Int64s, new_row: Int64s, count: int) -> list[pa.StringArray]:
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

    def _marks(self, placed: CellTexts, keep: Int64s, new_row: Int64s) -> list[tuple[int, int, str, str]]:
        kept = np.zeros(len(placed.row_of), np.bool_)
        kept[keep] = True
        return [
            (int(new_row[placed.row_of[at]]), int(placed.columns[at]), reason, found)
            for at, reason, found in zip(placed.mark_at.tolist(), placed.reasons, placed.found, strict=True)
            if kept[at]
        ]

    def _remember(self, placed: CellTexts) -> None:
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


def resize_blocks(blocks: Iterator[RowBlock], most_rows: int, most_bytes: int) -> Iterator[RowBlock]:
    """The same rows in blocks of ``most_rows``, or fewer where these would be larger than ``most_bytes``.

    Where a block ends depends on the rows alone, not on how they came.
    """
    held: list[RowBlock] = []
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


def _cut(block: RowBlock, most_bytes: int) -> Iterator[RowBlock]:
    """Halve a block until its parts are small enough."""
    size = sum(column.nbytes for column in block.columns)
    if size <= most_bytes or len(block) == 1:
        yield block
        return
    middle = len(block) // 2
    yield from _cut(_part(block, 0, middle), most_bytes)
    yield from _cut(_part(block, middle, len(block)), most_bytes)


def _joined(blocks: Sequence[RowBlock]) -> RowBlock:
    if len(blocks) == 1:
        return blocks[0]
    marks, start = [], 0
    for block in blocks:
        marks += [(row + start, *rest) for row, *rest in block.marks]
        start += len(block)
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in blocks), strict=True)]
    return RowBlock(np.concatenate([b.rows for b in blocks]), columns, marks)  # type: ignore[arg-type]


def _part(block: RowBlock, start: int, end: int) -> RowBlock:
    columns = [column.slice(start, end - start) for column in block.columns]
    marks = [(row - start, *rest) for row, *rest in block.marks if start <= row < end]
    return RowBlock(block.rows[start:end], columns, marks)  # type: ignore[arg-type]
