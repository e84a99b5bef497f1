"""Packing: several conversations in one sequence, best fit first, so that little room is wasted.

It comes last, over certified samples: what it puts together has been judged alone. Position ids restart at each
conversation, which is how a loader (or flash attention) finds the boundaries.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrow_lists import Int64s, flatten, lists, offsets, within
from pipeline.batch import Samples
from pipeline.reasons import Reason
from pipeline.shards.schemas import IDS, IGNORE

BETWEEN = " "
"""Between the content ids of one sequence."""
PACKED = "samples"
"""Column with the sample ids inside a packed sequence."""
TOKEN_COLUMNS = ("input_ids", "attention_mask", "labels")


@dataclass(slots=True)
class Pack:
    """Packs the samples of a batch: the last step over certified samples of one split.

    Attributes:
        capacity: tokens of one sequence. Longer samples do not occur: the schema's limit is checked against it.
    """

    capacity: int

    def __call__(self, samples: Samples) -> Samples:
        """Sequences of samples: the place is that of the first inside, the notes are those of all, and ``samples``
        names all."""
        table = samples.table
        if not table.num_rows:
            return samples
        _, lengths = flatten(table["input_ids"])
        bins = best_fit(lengths, self.capacity)
        order = np.concatenate(bins)
        counts = np.fromiter(map(len, bins), np.int64, len(bins))
        firsts = np.fromiter((members[0] for members in bins), np.int64, len(bins))
        columns: dict[str, Any] = {name: table[name].take(pa.array(firsts)) for name in table.column_names}
        sizes = lengths[order]
        whole = np.add.reduceat(sizes, np.cumsum(counts) - counts)
        for name in TOKEN_COLUMNS:
            columns[name] = _joined(table, name, order, whole)
        columns["labels"] = _unlearned_heads(columns["labels"], sizes, whole)
        columns["position_ids"] = lists(within(sizes).astype(np.int32), whole, IDS)
        ids = table["sample_id"].combine_chunks().take(pa.array(order))
        columns["notes"] = _notes(table["notes"], order, counts)
        columns[PACKED] = pa.ListArray.from_arrays(pa.array(offsets(counts)), ids)
        if "content_id" in table.column_names:
            columns["content_id"] = _joined_texts(table["content_id"], order, counts)
        columns["turns"] = _turns(table, order, counts, sizes)
        dropped = table["tokens_dropped"].to_numpy()[order]
        columns["tokens_dropped"] = pa.array(np.add.reduceat(dropped, np.cumsum(counts) - counts), pa.int32())
        packed = pa.table([columns[f.name] for f in table.schema], schema=table.schema)
        return Samples(packed, samples.ids[firsts], samples.pages)


def is_packed(schema: pa.Schema) -> bool:
    """Whether the samples of a shard are sequences of several conversations."""
    return PACKED in schema.names


def unpacked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``row`` and ``content_id`` of each conversation in packed sequences."""
    ids = pl.Series(pl.from_arrow(batch.column(PACKED).flatten()), dtype=pl.String)
    rows = ids.str.extract(r"#([0-9]+)(?:#w[0-9]+)?$", 1).cast(pl.Int64)
    contents = (
        pl.Series(pl.from_arrow(batch.column("content_id")), dtype=pl.String).str.split(BETWEEN).explode()
    )
    columns = [part.to_arrow(compat_level=pl.CompatLevel.oldest()) for part in (rows, contents)]
    # Polars gives texts 64-bit offsets; in every shard they are 32-bit.
    return pa.RecordBatch.from_arrays([columns[0], columns[1].cast(pa.string())], names=["row", "content_id"])


def best_fit(lengths: Int64s, capacity: int) -> list[Int64s]:
    """Bins of samples (indices in their order), each within the capacity, in the order of their first sample.

    Best-fit decreasing: the longest sample first, each into the fullest bin that still takes it; ties go to the
    earlier one, so that the same samples always give the same bins.
    """
    rooms: list[tuple[int, int]] = []  # (room left, bin), sorted
    bins: list[list[int]] = []
    for index in np.argsort(-lengths, kind="stable").tolist():
        size = int(lengths[index])
        place = bisect_left(rooms, (size, -1))
        if place == len(rooms):
            bins.append([index])
            insort(rooms, (capacity - size, len(bins) - 1))
        else:
            room, number = rooms.pop(place)
            bins[number].append(index)
            insort(rooms, (room - size, number))
    made = [np.array(sorted(members), np.int64) for members in bins]
    return sorted(made, key=lambda members: int(members[0]))


def _joined(table: pa.Table, name: str, order: Int64s, whole: Int64s) -> pa.Array:
    column = table[name].combine_chunks().take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(offsets(whole)), column.flatten(), type=column.type)


def _joined_texts(column: pa.ChunkedArray, order: Int64s, counts: Int64s) -> pa.Array:
    """The texts of each sequence's conversations as one text."""
    texts = column.combine_chunks().take(pa.array(order))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets(counts)), texts), BETWEEN)


def _notes(column: pa.ChunkedArray, order: Int64s, counts: Int64s) -> pa.ListArray:
    """The notes of all conversations of each sequence, each once, in the order of the reasons."""
    held = column.combine_chunks()
    if not len(held.flatten()):
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(len(counts) + 1, np.int32)), pa.array([], pa.string())
        )
    notes, edges = held.take(pa.array(order)).to_pylist(), offsets(counts).tolist()
    places = {reason.slug: place for place, reason in enumerate(Reason)}
    whole = [
        sorted({slug for own in notes[first:last] for slug in own}, key=places.__getitem__)
        for first, last in pairwise(edges)
    ]
    return pa.array(whole, pa.list_(pa.string()))


def _unlearned_heads(labels: pa.ListArray, sizes: Int64s, whole: Int64s) -> pa.ListArray:
    """Labels without that of each conversation's first token: nothing before it is its own context."""
    values, _ = flatten(labels)
    values = values.copy()
    values[(np.cumsum(sizes) - sizes)[sizes > 0]] = IGNORE
    return lists(values, whole, IDS)


def _turns(table: pa.Table, order: Int64s, counts: Int64s, sizes: Int64s) -> pa.ListArray:
    """Turn spans moved to where their conversation stands in the sequence."""
    column = table["turns"].combine_chunks().take(pa.array(order))
    turns = column.value_lengths().to_numpy().astype(np.int64)
    inner = column.flatten()
    within_bin = np.cumsum(sizes) - sizes
    firsts = np.cumsum(counts) - counts
    shift = np.repeat(within_bin - np.repeat(within_bin[firsts], counts), turns).astype(np.int32)
    moved = [
        inner.field("role"),
        *(pa.array(inner.field(name).to_numpy() + shift) for name in ("start", "end")),
    ]
    structs = pa.StructArray.from_arrays(moved, fields=list(column.type.value_type))
    whole = np.add.reduceat(turns, firsts)
    return pa.ListArray.from_arrays(pa.array(offsets(whole)), structs, type=column.type)
