"""Facts about the columns of a shard that a training node can trust without reading the shard."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.shards.column import ColumnStatistics


def measure(batch: pa.RecordBatch) -> dict[str, ColumnStatistics]:
    """Statistics of every column of a batch, by path."""
    facts: dict[str, ColumnStatistics] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _visit(name, column, facts)
    return facts


def _visit(path: str, column: pa.Array, facts: dict[str, ColumnStatistics]) -> None:
    kind = column.type
    nulls, count = column.null_count, len(column) - column.null_count
    if pa.types.is_struct(kind):
        facts[path] = ColumnStatistics(nulls=nulls, count=count)
        for member, child in zip(kind, column.flatten(), strict=True):
            _visit(f"{path}.{member.name}", child, facts)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        facts[path] = _lengths(nulls, count, column.value_lengths())
        _visit(f"{path}[]", column.flatten(), facts)
    elif pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        known = ColumnStatistics(nulls, count, shortest=size, longest=size, total=size * count)
        facts[path] = known if count else ColumnStatistics(nulls, count, total=0)
        _visit(f"{path}[]", column.flatten(), facts)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        facts[path] = _lengths(nulls, count, pc.binary_length(column))
    elif pa.types.is_integer(kind):
        low, high = _bounds(column)
        facts[path] = ColumnStatistics(nulls, count, low, high)
    elif pa.types.is_floating(kind):
        facts[path] = _floats(nulls, count, column)
    else:
        facts[path] = ColumnStatistics(nulls=nulls, count=count)


def _lengths(nulls: int, count: int, lengths: pa.Array) -> ColumnStatistics:
    low, high = _bounds(lengths)
    total = pc.sum(lengths).as_py() or 0
    return ColumnStatistics(nulls, count, shortest=low, longest=high, total=total)


def _floats(nulls: int, count: int, column: pa.Array) -> ColumnStatistics:
    values = column.drop_null().to_numpy(zero_copy_only=False)
    finite = values[np.isfinite(values)]
    lost = len(values) - len(finite)
    if not len(finite):
        return ColumnStatistics(nulls, count, not_finite=lost)
    # + 0.0 turns a negative zero, which compares equal, into the one zero.
    low, high = (repr(float(v) + 0.0) for v in (finite.min(), finite.max()))
    return ColumnStatistics(nulls, count, low, high, lost)


def _bounds(column: pa.Array) -> tuple[int | None, int | None]:
    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py()
