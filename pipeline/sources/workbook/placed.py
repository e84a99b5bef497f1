"""Cells with their texts, wherever they lie: what the reader of a sheet delivers, whatever the format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.sources.workbook.cells import Int32s, Int64s, Mask
from pipeline.sources.workbook.pool import LONGEST_CELL, Pool, pool


@dataclass(frozen=True, slots=True)
class Placed:
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
    pools: list[Pool]
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


class Making:
    """Puts texts and marks on cells, then makes them ``Placed``."""

    def __init__(self, rows: Int64s, row_of: Int64s, columns: Int32s) -> None:
        self._rows, self._row_of, self._columns = rows, row_of, columns
        self._pools: list[Pool] = []
        self._pool_of = np.zeros(len(row_of), np.uint8)
        self._index = np.full(len(row_of), -1, np.int64)
        self._filled = np.zeros(len(row_of), np.bool_)
        self._at: list[Int64s] = []
        self._reasons: list[str] = []
        self._found: list[str] = []

    def place(self, cells: Int64s, pool: Pool, index: Int64s) -> None:
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
            self.place(cells, pool(texts, escaped), np.arange(len(cells)))

    def mark(self, cells: Int64s, reason: str, found: str | Sequence[str] = "") -> None:
        """Say something of cells: a reason's slug, and what was found, once or for each."""
        if len(cells):
            self._at.append(cells)
            self._reasons += [reason] * len(cells)
            self._found += [found] * len(cells) if isinstance(found, str) else found

    def done(self) -> Placed:
        at = np.concatenate(self._at) if self._at else np.zeros(0, np.int64)
        return Placed(
            self._rows, self._row_of, self._columns, self._pools, self._pool_of, self._index, self._filled,
            at, self._reasons, self._found,
        )  # fmt: skip
