"""Columns that every sample has: its place, its notes, its content digest; and the split it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipeline.arrow_lists import flatten
from pipeline.batch import Batch, Findings, Int64s, Samples

if TYPE_CHECKING:
    from pipeline.schema.model import Split


# The columns that lead a sample back to its file, sheet and row.


def provenance(
    batch: Batch, records: Int64s, notes: Findings, windows: Int64s | None = None
) -> dict[str, pa.Array]:
    """``sample_id, source, sheet, row, notes`` of each sample.

    Args:
        batch: the records.
        records: int64 [samples], position within ``batch`` of the record each sample was made from.
        notes: findings whose repairs and flags are written to ``notes``.
        windows: int64 [samples], number of the window within its record; adds ``#w<k>`` to the id.
    """
    n = len(records)
    rows = pa.array(batch.rows[records], pa.int64())
    prefix = batch.source if batch.sheet is None else f"{batch.source}#{batch.sheet}"
    ids = _join(pa.repeat(pa.scalar(prefix), n), "#", rows.cast(pa.string()))
    if windows is not None:
        ids = _join(ids, "#w", pa.array(windows, pa.int64()).cast(pa.string()))
    noted = notes.noted()
    written = [noted.get(int(record), []) for record in batch.ids] if noted else []
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(n + 1, np.int32)), pa.array([], pa.string()))
    return {
        "sample_id": ids,
        "source": pa.repeat(pa.scalar(batch.source), n),
        "sheet": pa.repeat(pa.scalar(batch.sheet, pa.string()), n),
        "row": rows,
        "notes": pa.array([written[i] for i in records.tolist()], pa.list_(pa.string())) if noted else empty,
    }


def with_notes(samples: Samples, findings: Findings) -> Samples:
    """The samples with all repairs and flags of their records in ``notes``, those of earlier stages, too."""
    noted = findings.noted()
    if not noted:
        return samples
    place = samples.table.schema.get_field_index("notes")
    written = pa.array([noted.get(record, []) for record in samples.ids.tolist()], pa.list_(pa.string()))
    table = samples.table.set_column(place, samples.table.schema.field(place), written)
    return replace(samples, table=table)


def carried(batch: Batch, records: Int64s, columns: list[pa.Field]) -> dict[str, pa.Array]:
    """The schema's own columns, one value a sample, in their Arrow types."""
    if not columns:
        return {}
    frame: pl.DataFrame = batch.frame.select(field.name for field in columns)[pl.Series(records)]
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return {field.name: table.column(field.name).combine_chunks().cast(field.type) for field in columns}


def _join(left: pa.Array, between: str, right: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(left, right, between)


# What a record teaches, as a digest: two records are duplicates when a model sees the same of both.


CONTENT = pa.field("content_id", pa.string(), nullable=False)
"""Column of every shard: blake2b-128 of the record's final tokens, boxes and page image, hexadecimal; the same in each
window. Labels do not count: the same text under two labels is a duplicate, too."""
_SEEN = ("input_ids", "bbox", "rejected_input_ids")


def with_content_id(samples: Samples, columns: list[str]) -> Samples:
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
        values, lengths = flatten(samples.table[name])
        whole = np.ascontiguousarray(values).data
        edges = np.concatenate([[0], np.cumsum(lengths)])
        for state, first, last in zip(states, edges[starts].tolist(), edges[ends].tolist(), strict=True):
            state.update(whole[first:last])
            state.update(b"|")
    if "page_id" in samples.table.column_names:
        pages = samples.table["page_id"].take(pa.array(starts)).to_pylist()
        for state, page in zip(states, pages, strict=True):
            state.update((page or "").encode())
    return [state.hexdigest() for state in states]


def _of_columns(samples: Samples, names: list[str]) -> list[str]:
    """One digest a row, over its values as JSON."""
    frame = pl.from_arrow(samples.table.select(names))
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table gives a frame
    rows = frame.select(pl.struct(names).struct.json_encode())
    texts = (row.encode("utf-8") for row in rows.to_series().to_list())
    return [hashlib.blake2b(text, digest_size=16).hexdigest() for text in texts]


# Splits by the hash of a key: a record's split depends on its key alone, so it never moves when rows are
# added.


RANGE = 1 << 64


def assign_splits(keys: Sequence[str], split: Split) -> npt.NDArray[np.str_]:
    """Name of the split of each key, str [n].

    The first 8 bytes of blake2b(salt, key), as a fraction of 2^64, fall into the share of one split; shares stand in
    the order of the schema.
    """
    names = np.array(list(split.shares))
    ends = np.cumsum([Fraction(str(share)) for share in split.shares.values()])
    # The last share ends at one, whatever the decimals of the others add up to.
    edges = np.array([min(int(end * RANGE), RANGE - 1) for end in ends[:-1]], np.uint64)
    salt = hashlib.blake2b(split.salt.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    numbers = np.fromiter((_number(key, salt) for key in keys), np.uint64, len(keys))
    chosen: npt.NDArray[np.str_] = names[np.searchsorted(edges, numbers, side="right")]
    return chosen


def _number(key: str, salt: bytes) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "big")
