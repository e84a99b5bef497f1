"""Rows into batches, and merged areas into their cells, against plain loops over lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.xlsx.rows import (
    Area,
    CellTexts,
    CellTextsBuilder,
    RowBlock,
    RowBlockBuilder,
    resize_blocks,
)
from pipeline.readers.xlsx.strings import string_table

Grid = dict[tuple[int, int], str]


def cells_of(cells: Grid, first: int, last: int) -> CellTexts:
    """The cells of rows ``first`` to ``last`` as a reader delivers them."""
    here = sorted((at, text) for at, text in cells.items() if first <= at[0] <= last)
    rows = sorted({row for (row, _), _ in here})
    builder = CellTextsBuilder(
        np.array(rows, np.int64),
        np.array([rows.index(row) for (row, _), _ in here], np.int64),
        np.array([column for (_, column), _ in here], np.int32),
    )
    texts = string_table(pa.array([text for _, text in here], pa.string()))
    builder.set_texts(np.arange(len(here)), texts, np.arange(len(here)))
    return builder.build()


GRIDS = st.dictionaries(
    st.tuples(st.integers(1, 12), st.integers(0, 5)), st.sampled_from(["", "a", "b"]), max_size=30
)
AREAS = st.builds(
    lambda top, left, height, width: Area(top, left, top + height, left + width),
    st.integers(1, 10),
    st.integers(0, 4),
    st.integers(0, 5),
    st.integers(0, 3),
)


@given(GRIDS, st.integers(1, 5), st.integers(0, 3), AREAS | st.none(), st.integers(1, 12))
def test_blocks_are_what_a_loop_over_cells_gives(
    cells: Grid, width: int, below: int, area: Area | None, cut: int
) -> None:
    if area is not None:  # of a merged area, only the first cell has a text
        cells = {
            (r, c): text
            for (r, c), text in cells.items()
            if (r, c) == (area.top, area.left)
            or not (area.top <= r <= area.bottom and area.left <= c <= area.right)
        }
    blocks = RowBlockBuilder(width, below, [area] if area else [])
    row_blocks = [blocks(cells_of(cells, 1, cut)), blocks(cells_of(cells, cut + 1, 99))]
    got = {
        (row, column): text
        for block in row_blocks
        for column, texts in enumerate(block.columns)
        for row, text in zip(block.rows.tolist(), texts.to_pylist(), strict=True)
    }
    rows = sorted({r for (r, c), text in cells.items() if text and r > below and c < width})
    expected: dict[tuple[int, int], str | None] = {
        (row, column): cells.get((row, column)) or None for row in rows for column in range(width)
    }
    if area is not None and (anchor := cells.get((area.top, area.left))):
        for row in range(area.top, area.bottom + 1):
            for column in range(area.left, area.right + 1):
                if (row, column) in expected:
                    expected[row, column] = anchor
    assert got == expected


@given(st.lists(st.integers(0, 7), max_size=12), st.integers(1, 9))
def test_batches_do_not_depend_on_how_rows_came(sizes: list[int], most: int) -> None:
    count = sum(sizes)
    edges = np.cumsum([0, *sizes])
    parts = [
        RowBlock(
            np.arange(start, end),
            [pa.array([str(i) for i in range(start, end)], pa.string())],
            [(i - start, 0, "cell_error", str(i)) for i in range(start, end)],
        )
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    builder = list(resize_blocks(iter(parts), most, 2**20))
    assert [len(block) for block in builder] == [most] * (count // most) + (
        [count % most] if count % most else []
    )
    for block in builder:
        assert [str(row) for row in block.rows.tolist()] == block.columns[0].to_pylist()
        assert [found for *_, found in block.marks] == block.columns[0].to_pylist()
        assert [row for row, *_ in block.marks] == list(range(len(block)))


def test_a_batch_of_long_texts_has_fewer_rows() -> None:
    block = RowBlock(np.arange(1, 101), [pa.array(["x" * 1000] * 100)])
    builder = list(resize_blocks(iter([block]), 100, 20_000))
    assert sum(map(len, builder)) == 100
    assert all(part.columns[0].nbytes <= 20_000 for part in builder)
