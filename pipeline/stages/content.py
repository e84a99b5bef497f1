"""What a record teaches, as a digest: two records are duplicates when a model sees the same of both."""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.arrays import flat
from pipeline.batch import Int64s, Samples

CONTENT = pa.field("content_id", pa.string(), nullable=False)
"""Column of every shard: blake2b-128 of the record's final tokens and boxes, hexadecimal; the same in each window.
Labels do not count: the same text under two labels is a duplicate, too."""
_SEEN = ("input_ids", "bbox", "rejected_input_ids")


def with_content(samples: Samples, columns: list[str]) -> Samples:
    """The samples with their ``content_id``.

    Args:
        samples: final samples; those of one record stand together.
        columns: the schema's own columns, which are the content of a table that is not tokenized.
    """
    seen = [name for name in _SEEN if name in samples.table.column_names]
    starts = np.flatnonzero(np.diff(samples.ids, prepend=-1))
    ends = np.append(starts[1:], len(samples.ids)).astype(np.int64)[: len(starts)]
    digests = _of_arrays(samples, seen, starts, ends) if seen else _of_columns(samples, columns)
    each = np.repeat(np.arange(len(starts)), ends - starts) if len(starts) else np.empty(0, np.int64)
    column = pa.array(digests, pa.string()).take(pa.array(each, pa.int64()))
    return Samples(samples.table.append_column(CONTENT, column), samples.ids, samples.pages)


def _of_arrays(samples: Samples, names: list[str], starts: Int64s, ends: Int64s) -> list[str]:
    """One digest a record, over the bytes of its list columns."""
    states = [hashlib.blake2b(digest_size=16) for _ in starts]
    for name in names:
        values, lengths = flat(samples.table[name])
        whole = np.ascontiguousarray(values).data
        edges = np.concatenate([[0], np.cumsum(lengths)])
        for state, first, last in zip(states, edges[starts].tolist(), edges[ends].tolist(), strict=True):
            state.update(whole[first:last])
            state.update(b"|")
    return [state.hexdigest() for state in states]


def _of_columns(samples: Samples, names: list[str]) -> list[str]:
    """One digest a row, over its values as JSON."""
    frame = pl.from_arrow(samples.table.select(names))
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table gives a frame
    rows = frame.select(pl.struct(names).struct.json_encode())
    texts = (row.encode("utf-8") for row in rows.to_series().to_list())
    return [hashlib.blake2b(text, digest_size=16).hexdigest() for text in texts]
