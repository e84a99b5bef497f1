"""Plain blocks of delimited text: where any parser reads the same, the fast one reads, straight into the fields' types.

Polars' parser is twice as fast as pyarrow's, but fills short rows up, splits blank lines into a row, and refuses a
block for one row that is too long. Where every quote is in place, it finds as many rows as the scan, and the last
column has no blank, none of this can have happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Typed
from pipeline.cells.text import is_sound
from pipeline.sources.blocks import Block
from pipeline.sources.partition import Partition

if TYPE_CHECKING:
    import polars as pl

TRIES = 3
"""Blocks in a row that may hold a cell no typed parser takes: after them, cells are read as texts."""


@dataclass(slots=True)
class Plain:
    """Parses the plain blocks of one partition.

    Attributes:
        types: type of each column that is to be parsed straight into one; every other is text.
    """

    partition: Partition
    types: Mapping[str, pl.DataType | type[pl.DataType]]
    _failed: int = 0

    def __call__(self, block: Block) -> Batch | None:
        """The records of a block with ids from 0, typed where all of them are plainly right; None for the careful
        way."""
        names = self.partition.header
        if not block.plain or block.oversized or len(names) < 2 or block.data.startswith(b"\xef\xbb\xbf"):
            return None
        if self.types and self._failed < TRIES:
            values = self._parse(block, self.types)
            if values is not None:
                self._failed = 0
                return replace(self._batch(block), typed=Typed(values, cache(lambda: self._of_texts(block))))
            self._failed += 1
        cells = self._parse(block, {})
        return None if cells is None else replace(self._batch(block), cells=cells)

    def _batch(self, block: Block) -> Batch:
        import polars as pl

        return Batch(
            self.partition.source, None, np.arange(len(block.ends), dtype=np.int64), block.line + block.lines,
            pl.DataFrame(), decimal=self.partition.decimal, sound=is_sound(block.data),
        )  # fmt: skip

    def _of_texts(self, block: Block) -> Batch:
        cells = self._parse(block, {})
        if cells is None:
            raise RuntimeError(f"{self.partition.source}: a block that was parsed typed is none of texts")
        return replace(self._batch(block), cells=cells)

    def _parse(
        self, block: Block, types: Mapping[str, pl.DataType | type[pl.DataType]]
    ) -> pl.DataFrame | None:
        import polars as pl

        names = self.partition.header
        # Without a line break at the end, the parser overlooks one delimiter too many.
        data = block.data if block.data.endswith(b"\n") else block.data + b"\n"
        try:
            cells = pl.read_csv(
                data,
                has_header=False,
                schema={name: types.get(name, pl.String) for name in names},
                separator=self.partition.delimiter,
            )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return None
        if cells.height != len(block.ends) or cells.get_column(names[-1]).null_count():
            return None
        if block.hollow:  # a blank in quotes
            texts = pl.col(pl.String)
            cells = cells.with_columns(pl.when(texts != "").then(texts))
            if cells.get_column(names[-1]).null_count():
                return None
        return cells
