"""Cells of consecutive rows: as the file stores them, with their texts, and by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.readers.xlsx.strings import MOST_CELL_CHARACTERS, StringTable, string_table
from pipeline.readers.xlsx.xml_tags import Bytes, Int32s, Int64s, Mask, replace_texts

# Stored cells, as both readers of sheet XML deliver them


class StoredType(IntEnum):
    """How a cell's value is stored (ECMA-376 part 1, 18.18.11)."""

    BLANK = 0
    NUMBER = 1
    SHARED = 2  # index of a shared string
    TEXT = 3  # the text itself
    BOOLEAN = 4
    ERROR = 5
    ISO_DATE = 6
    FORMULA_EMPTY = 7  # a formula without a stored value
    INVALID = 8  # of an unknown type
    FORMULA_TEXT = 9  # the text result of a formula

    @property
    def is_text(self) -> bool:
        """Whether the empty text is a value of this type."""
        return self in (StoredType.TEXT, StoredType.FORMULA_TEXT)


@dataclass(frozen=True, slots=True)
class StoredCells:
    """Cells of consecutive rows.

    Attributes:
        rows: int64 [n], number of each row, from 1.
        row_of: int64 [m], index into ``rows`` of each cell.
        columns: int32 [m], from 0 for column A.
        stored: uint8 [m], see ``StoredType``.
        styles: int32 [m], index of the cell's style.
        shared: int64 [s], string index of each ``SHARED`` cell, in order; -1 for an invalid one.
        values: string [v], stored value of every other cell with a value, in order.
    """

    rows: Int64s
    row_of: Int64s
    columns: Int32s
    stored: Bytes
    styles: Int32s
    shared: Int64s
    values: pa.StringArray

    def valued(self) -> Int64s:
        """Indices of the cells that ``values`` belongs to: int64 [v]."""
        none = (self.stored == StoredType.BLANK) | (self.stored == StoredType.FORMULA_EMPTY)
        return np.flatnonzero(~(none | (self.stored == StoredType.SHARED)))


# Cells with their texts, as the reader of every format delivers them


@dataclass(frozen=True, slots=True)
class CellTexts:
    """Cells of consecutive rows.

    Attributes:
        rows: int64 [n], number of each row, from 1, ascending.
        row_of, columns: int64 [m], int32 [m], row index and column of each cell; columns from 0.
        tables: the tables of strings with the texts.
        table_of, index: uint8 [m], int64 [m], table and index of each cell's text; index -1 for none.
        filled: bool [m], whether a cell has a text other than "".
        mark_at: int64 [k], index of the cell of each mark; a mark is a finding on one cell.
        reasons, found: reason slug of each mark, and what was found.
    """

    rows: Int64s
    row_of: Int64s
    columns: Int32s
    tables: list[StringTable]
    table_of: npt.NDArray[np.uint8]
    index: Int64s
    filled: Mask
    mark_at: Int64s
    reasons: list[str]
    found: list[str]
    _joined: dict[tuple[int, ...], tuple[pa.StringArray, Int64s]] = field(default_factory=dict)

    def text(self, cell: int) -> str | None:
        """Text of one cell; None without one."""
        if self.index[cell] < 0:
            return None
        text: str | None = self.tables[self.table_of[cell]].texts[int(self.index[cell])].as_py()
        return text

    def take(self, cells: Int64s) -> pa.StringArray:
        """Texts of the given cells (int64 [k], -1: no cell): string [k], null without a text."""
        if not len(self.index):
            return pa.nulls(len(cells), pa.string())
        index = np.where(cells >= 0, self.index[cells], -1)
        table_of = self.table_of[cells]
        used = tuple(np.flatnonzero(np.bincount(table_of[index >= 0])).tolist())
        if not used:
            return pa.nulls(len(cells), pa.string())
        texts, starts = self._concatenated(used)
        if len(used) > 1:
            index = np.where(index >= 0, index + starts[table_of], -1)
        return texts.take(pa.array(index, mask=index < 0))

    def _concatenated(self, used: tuple[int, ...]) -> tuple[pa.StringArray, Int64s]:
        """The texts of some tables as one array, and the offset of each table in it."""
        if used not in self._joined:
            tables = [self.tables[table] for table in used]
            texts = (
                tables[0].texts if len(tables) == 1 else pa.concat_arrays([table.texts for table in tables])
            )
            starts = np.zeros(len(self.tables), np.int64)
            starts[list(used)] = np.cumsum([0, *(len(table) for table in tables[:-1])])
            self._joined[used] = texts, starts
        return self._joined[used]


class CellTextsBuilder:
    """Collects the texts and marks of cells, then builds ``CellTexts``."""

    def __init__(self, rows: Int64s, row_of: Int64s, columns: Int32s) -> None:
        self._rows, self._row_of, self._columns = rows, row_of, columns
        self._tables: list[StringTable] = []
        self._table_of = np.zeros(len(row_of), np.uint8)
        self._index = np.full(len(row_of), -1, np.int64)
        self._filled = np.zeros(len(row_of), np.bool_)
        self._at: list[Int64s] = []
        self._reasons: list[str] = []
        self._found: list[str] = []

    def set_texts(self, cells: Int64s, table: StringTable, index: Int64s) -> None:
        """Set the texts of cells (int64 [k]) by index (int64 [k]) of a table."""
        self._table_of[cells] = len(self._tables)
        self._tables.append(table)
        self._index[cells] = index
        self._filled[cells] = ~table.blank[index]
        self.mark(cells[table.escaped[index]], "cell_escape_decoded")
        self.mark(cells[table.full[index]], "possibly_truncated_at_source", str(MOST_CELL_CHARACTERS))

    def set_own_texts(self, cells: Int64s, texts: pa.StringArray, escaped: Mask | None = None) -> None:
        """Set texts of cells (int64 [k]) that no table has (string [k]); ``escaped``: which of them had escapes."""
        if len(cells):
            self.set_texts(cells, string_table(texts, escaped), np.arange(len(cells)))

    def mark(self, cells: Int64s, reason: str, found: str | Sequence[str] = "") -> None:
        """Mark cells with a reason slug and what was found, one text for all or one for each."""
        if len(cells):
            self._at.append(cells)
            self._reasons += [reason] * len(cells)
            self._found += [found] * len(cells) if isinstance(found, str) else found

    def build(self) -> CellTexts:
        at = np.concatenate(self._at) if self._at else np.zeros(0, np.int64)
        return CellTexts(
            self._rows,
            self._row_of,
            self._columns,
            self._tables,
            self._table_of,
            self._index,
            self._filled,
            at,
            self._reasons,
            self._found,
        )


# Rows with their cells by column, without blank rows; merged areas are filled if the schema says so


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Records: rows with a text or mark in at least one of the first ``width`` columns.

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
    """Makes blocks of ``width`` columns from cells, without the rows up to ``below``."""

    def __init__(self, width: int, below: int, areas: Sequence[Area] = ()) -> None:
        self._width, self._below = width, below
        self._areas = sorted(
            (a for a in areas if a.left < width and a.bottom > below), key=lambda a: (a.top, a.left)
        )
        self._anchors: dict[Area, str | None] = {}

    def __call__(self, cells: CellTexts) -> RowBlock:
        marked = np.zeros(len(cells.row_of), np.bool_)
        marked[cells.mark_at] = True
        inside = cells.columns < self._width
        self._keep_anchors(cells)
        keep = np.flatnonzero((cells.filled | marked) & inside & (cells.rows[cells.row_of] > self._below))
        alive = np.zeros(len(cells.rows), np.bool_)
        alive[cells.row_of[keep]] = True
        new_row = np.cumsum(alive) - 1
        rows = cells.rows[alive]
        columns = self._columns(cells, keep, new_row, len(rows))
        marks = self._marks(cells, keep, new_row)
        if self._areas:
            marks += self._fill_areas(rows, columns)
        return RowBlock(rows, columns, sorted(marks))

    def _columns(self, cells: CellTexts, keep: Int64s, new_row: Int64s, count: int) -> list[pa.StringArray]:
        keep = keep[cells.filled[keep]]
        row_of = new_row[cells.row_of[keep]]
        if len(keep) == count * self._width:  # in most sheets each row has all cells
            grid = (count, self._width)
            in_place = (cells.columns[keep].reshape(grid) == np.arange(self._width)).all()
            if in_place and (row_of.reshape(grid) == np.arange(count)[:, None]).all():
                return [cells.take(keep[column :: self._width]) for column in range(self._width)]
        of = cells.columns[keep].astype(np.int16)  # holds every column number, and is sorted by radix
        order = np.argsort(of, kind="stable")
        edges = np.searchsorted(of[order], np.arange(self._width + 1))
        columns = []
        for column in range(self._width):
            in_column = order[edges[column] : edges[column + 1]]
            index = np.full(count, -1, np.int64)
            index[row_of[in_column]] = keep[in_column]
            columns.append(cells.take(index))
        return columns

    def _marks(self, cells: CellTexts, keep: Int64s, new_row: Int64s) -> list[tuple[int, int, str, str]]:
        kept = np.zeros(len(cells.row_of), np.bool_)
        kept[keep] = True
        return [
            (int(new_row[cells.row_of[at]]), int(cells.columns[at]), reason, found)
            for at, reason, found in zip(cells.mark_at.tolist(), cells.reasons, cells.found, strict=True)
            if kept[at]
        ]

    def _keep_anchors(self, cells: CellTexts) -> None:
        """Keep the text of each merged area that begins in these cells."""
        if not self._areas or not len(cells.rows):
            return
        first, last = int(cells.rows[0]), int(cells.rows[-1])
        wanted = {(a.top, a.left): a for a in self._areas if first <= a.top <= last}
        if not wanted:
            return
        near = np.isin(cells.columns, [left for _, left in wanted]) & cells.filled
        near &= np.isin(cells.rows[cells.row_of], [top for top, _ in wanted])
        for at in np.flatnonzero(near).tolist():
            area = wanted.get((int(cells.rows[cells.row_of[at]]), int(cells.columns[at])))
            if area is not None:
                self._anchors[area] = cells.text(at)

    def _fill_areas(self, rows: Int64s, columns: list[pa.StringArray]) -> list[tuple[int, int, str, str]]:
        """Fill merged areas with the text of their first cell, within rows that are records; returns the marks."""
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
            columns[column] = replace_texts(columns[column], np.array(places, np.int64), new)
            marks += [(row, column, "merged_cell_filled", "") for row in places]
        return marks


def resize_blocks(blocks: Iterator[RowBlock], most_rows: int, most_bytes: int) -> Iterator[RowBlock]:
    """The same rows in blocks of ``most_rows``, or fewer if they would be larger than ``most_bytes``.

    The ends of the blocks depend only on the rows, not on the blocks that they arrive in.
    """
    held: list[RowBlock] = []
    count = 0
    for block in blocks:
        if len(block):
            held.append(block)
            count += len(block)
        while count >= most_rows:
            whole = _concatenate(held)
            yield from _split_by_bytes(_slice(whole, 0, most_rows), most_bytes)
            held, count = [_slice(whole, most_rows, len(whole))], count - most_rows
    if count:
        yield from _split_by_bytes(_concatenate(held), most_bytes)


def _split_by_bytes(block: RowBlock, most_bytes: int) -> Iterator[RowBlock]:
    """Halve a block until its parts are small enough."""
    size = sum(column.nbytes for column in block.columns)
    if size <= most_bytes or len(block) == 1:
        yield block
        return
    middle = len(block) // 2
    yield from _split_by_bytes(_slice(block, 0, middle), most_bytes)
    yield from _split_by_bytes(_slice(block, middle, len(block)), most_bytes)


def _concatenate(blocks: Sequence[RowBlock]) -> RowBlock:
    if len(blocks) == 1:
        return blocks[0]
    marks, start = [], 0
    for block in blocks:
        marks += [(row + start, *rest) for row, *rest in block.marks]
        start += len(block)
    columns = [pa.concat_arrays(parts) for parts in zip(*(b.columns for b in blocks), strict=True)]
    return RowBlock(np.concatenate([b.rows for b in blocks]), columns, marks)  # type: ignore[arg-type]


def _slice(block: RowBlock, start: int, end: int) -> RowBlock:
    columns = [column.slice(start, end - start) for column in block.columns]
    marks = [(row - start, *rest) for row, *rest in block.marks if start <= row < end]
    return RowBlock(block.rows[start:end], columns, marks)  # type: ignore[arg-type]
