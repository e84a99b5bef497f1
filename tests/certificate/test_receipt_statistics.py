"""Statistics of data sets, and histograms of lengths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.certificate.receipt import histogram, statistics_of_parts, total_histogram
from pipeline.shards.statistics import measure
from pipeline.shards.writer import ShardWriter
from tests import runs


def test_a_data_set_is_measured_as_if_it_were_one_batch(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, runs.SCHEMA, 8, 3, fsync=False)
    table = runs.table("a.csv", 50)
    writer.write(table)
    whole = measure(table.combine_chunks().to_batches()[0])
    assert statistics_of_parts(writer.close()) == {path: facts.to_json() for path, facts in whole.items()}


@given(st.lists(st.integers(0, 100_000)), st.lists(st.integers(0, 100_000)))
def test_every_length_is_in_the_bucket_that_ends_at_or_after_it(first: list[int], second: list[int]) -> None:
    made = total_histogram([histogram(np.array(first, np.int64)), histogram(np.array(second, np.int64))])
    expected: dict[int, int] = {}
    for length in first + second:
        end = 1
        while end < length:
            end *= 2
        expected[end] = expected.get(end, 0) + 1
    assert made == {str(end): expected[end] for end in sorted(expected)}
    assert list(made) == [str(end) for end in sorted(expected)]
