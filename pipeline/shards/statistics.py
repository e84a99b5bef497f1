"""Facts about the columns of a shard that a training node can trust without reading the shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: v for name, v in facts.items() if v is not None and (v or name != "not_finite")}

    def merge(self, other: ColumnStatistics) -> ColumnStatistics:
        """Facts about both sets of values together."""
        return ColumnStatistics(
            nulls=self.nulls + other.nulls,
            count=self.count + other.count,
            minimum=_least(self.minimum, other.minimum, smallest=True),
            maximum=_least(self.maximum, other.maximum, smallest=False),
            not_finite=self.not_finite + other.not_finite,
            shortest=_either(min, self.shortest, other.shortest),
            longest=_either(max, self.longest, other.longest),
            total=_either(int.__add__, self.total, other.total),
        )


def from_json(value: Mapping[str, Any]) -> ColumnStatistics:
    """Statistics read from a certificate; raises ``TypeError`` for an unknown fact."""
    return ColumnStatistics(**value)


def measure(batch: pa.RecordBatch) -> dict[str, ColumnStatistics]:
    """Statistics of every column of a batch, by path."""
    facts: dict[str, ColumnStatistics] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _visit(name, column, facts)
    return facts


def merge(parts: Iterable[Mapping[str, ColumnStatistics]]) -> dict[str, ColumnStatistics]:
    """Statistics of several batches or shards together, by path."""
    whole: dict[str, ColumnStatistics] = {}
    for part in parts:
        for path, facts in part.items():
            whole[path] = whole[path].merge(facts) if path in whole else facts
    return whole


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


def _least(a: int | str | None, b: int | str | None, *, smallest: bool) -> int | str | None:
    known = [value for value in (a, b) if value is not None]
    if not known:
        return None
    return min(known, key=float) if smallest else max(known, key=float)


def _either(join: Any, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return a if b is None else b
    return int(join(a, b))
