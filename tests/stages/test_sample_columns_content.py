"""What a record teaches, as a digest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batch import Samples
from pipeline.shards.schemas import IDS
from pipeline.stages.sample_columns import with_content_id

RECORDS = st.lists(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=2), max_size=6)


def digests(records: list[list[list[int]]]) -> list[str]:
    """Content ids of the samples of records, each a list of windows."""
    windows = [window for record in records for window in record]
    owners = [number for number, record in enumerate(records) for _ in record]
    table = pa.table({"input_ids": pa.array(windows, IDS)})
    column: list[str] = (
        with_content_id(Samples(table, np.array(owners, np.int64)), []).table["content_id"].to_pylist()
    )
    return column


@given(RECORDS)
def test_two_records_have_one_digest_exactly_when_their_tokens_are_the_same(
    records: list[list[list[int]]],
) -> None:
    column = digests(records)
    starts = np.cumsum([0, *(len(record) for record in records)])
    for a, first in enumerate(records):
        assert len(set(column[starts[a] : starts[a + 1]])) == 1
        joined = [token for window in first for token in window]
        for b, second in enumerate(records):
            same = joined == [token for window in second for token in window]
            assert (column[starts[a]] == column[starts[b]]) is same


def test_a_record_has_the_same_digest_in_any_batch() -> None:
    assert digests([[[1, 2]], [[3]], [[1, 2]]])[2] == digests([[[1, 2]]])[0]


def test_a_table_that_is_not_tokenized_is_told_apart_by_its_columns() -> None:
    rows: list[dict[str, Any]] = [
        {"a": "x", "b": 1},
        {"a": "x", "b": 2},
        {"a": "x", "b": 1},
        {"a": None, "b": 1},
    ]
    samples = Samples(pa.Table.from_pylist(rows), np.arange(4, dtype=np.int64))
    column = with_content_id(samples, ["a", "b"]).table["content_id"].to_pylist()
    assert column[0] == column[2]
    assert len(set(column)) == 3
