"""Facts about columns, of one shard and of a whole data set, that a training node can trust without reading a
shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Facts about one column: plain data, merged by arithmetic alone. They are measured in ``statistics.py``.


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Facts about one column, or about the values inside its lists.

    Attributes:
        nulls: how many values are null.
        count: how many values are not.
        minimum, maximum: smallest and largest value of numbers (finite ones only); floats as the shortest text that
            gives the same float again, so that no JSON float is needed. None where there is none.
        not_finite: NaN and infinities among float values.
        shortest, longest, total: smallest, largest and summed length: elements of lists, bytes of text. None for
            numbers.
    """

    nulls: int = 0
    count: int = 0
    minimum: int | str | None = None
    maximum: int | str | None = None
    not_finite: int = 0
    shortest: int | None = None
    longest: int | None = None
    total: int | None = None

    def to_json(self) -> dict[str, int | str]:
        """Only what is known; ``not_finite`` only where there is some."""
        facts: dict[str, int | str] = {"nulls": self.nulls, "count": self.count}
        if self.minimum is not None:
            facts["minimum"] = self.minimum
        if self.maximum is not None:
            facts["maximum"] = self.maximum
        if self.not_finite:
            facts["not_finite"] = self.not_finite
        if self.shortest is not None:
            facts["shortest"] = self.shortest
        if self.longest is not None:
            facts["longest"] = self.longest
        if self.total is not None:
            facts["total"] = self.total
        return facts


def from_json(value: Mapping[str, Any]) -> ColumnStatistics:
    """Statistics read from a certificate; raises ``TypeError`` for an unknown fact."""
    return ColumnStatistics(**value)


def merge(parts: Iterable[Mapping[str, ColumnStatistics]]) -> dict[str, ColumnStatistics]:
    """Statistics of several batches or shards together, by path."""
    found: dict[str, list[ColumnStatistics]] = {}
    for part in parts:
        for path, facts in part.items():
            found.setdefault(path, []).append(facts)
    return {path: several[0] if len(several) == 1 else _together(several) for path, several in found.items()}


def _together(several: Sequence[ColumnStatistics]) -> ColumnStatistics:
    """Facts about several sets of values together."""
    minima = [one.minimum for one in several if one.minimum is not None]
    maxima = [one.maximum for one in several if one.maximum is not None]
    totals = [one.total for one in several if one.total is not None]
    return ColumnStatistics(
        nulls=sum([one.nulls for one in several]),
        count=sum([one.count for one in several]),
        minimum=min(minima, key=float, default=None),
        maximum=max(maxima, key=float, default=None),
        not_finite=sum([one.not_finite for one in several]),
        shortest=min([one.shortest for one in several if one.shortest is not None], default=None),
        longest=max([one.longest for one in several if one.longest is not None], default=None),
        total=sum(totals) if totals else None,
    )


# Facts about the columns of a shard that a training node can trust without reading the shard.


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
