"""Lists as flat arrays and back."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.arrow_lists import elements, flatten, lists, offsets, owners, within

NESTED = st.lists(st.lists(st.integers(-5, 5), max_size=5), max_size=8)
BOXES = st.lists(st.lists(st.tuples(*[st.integers(0, 9)] * 4).map(list), max_size=3), max_size=4)


@given(NESTED, st.integers(0, 3))
def test_flat_then_lists_is_the_same_column_also_of_a_slice(rows: list[list[int]], start: int) -> None:
    column = pa.array(rows, pa.list_(pa.int32())).slice(start)
    values, lengths = flatten(column)
    assert lists(values, lengths, pa.list_(pa.int32())).to_pylist() == rows[start:]


@given(BOXES)
def test_boxes_come_as_a_matrix_and_go_back(rows: list[list[list[int]]]) -> None:
    type_ = pa.list_(pa.list_(pa.int16(), 4))
    values, lengths = flatten(pa.chunked_array([pa.array(rows, type_)]))
    assert values.shape == (sum(map(len, rows)), 4)
    assert lists(values, lengths, type_).to_pylist() == rows


def test_a_null_list_is_empty() -> None:
    values, lengths = flatten(pa.array([[1], None, [2, 3]]))
    assert values.tolist() == [1, 2, 3]
    assert lengths.tolist() == [1, 0, 2]


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=3), st.booleans()), max_size=8))
def test_what_lies_in_the_place_of_a_null_list_is_no_element(rows: list[tuple[list[str], bool]]) -> None:
    values = [value for row, _ in rows for value in row]
    array = pa.LargeListArray.from_arrays(
        pa.array(np.cumsum([0, *(len(row) for row, _ in rows)])),
        pa.array(values, pa.large_string()),
        mask=pa.array([null for _, null in rows], pa.bool_()),
    )
    column = pl.Series("x", pl.from_arrow(array))
    assert elements(column).to_list() == [value for row, null in rows if not null for value in row]


@given(st.lists(st.integers(0, 4), max_size=9))
def test_within_and_owners_name_each_value(lengths: list[int]) -> None:
    array = np.array(lengths, np.int64)
    pairs = [(owner, place) for owner, n in enumerate(lengths) for place in range(n)]
    assert list(zip(owners(array).tolist(), within(array).tolist(), strict=True)) == pairs
    assert offsets(array).tolist() == [sum(lengths[:i]) for i in range(len(lengths) + 1)]
