"""Statistics of the columns of a batch, a shard or a data set: nulls, ranges, lengths.

The certificate holds them, so that a training node can check a data set against its model without reading a shard.
Only measuring imports pyarrow: a run that finds nothing changed reads statistics and never measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column, or of the values inside its lists.

    Attributes:
        nulls: number of null values.
        count: number of other values.
        minimum, maximum: smallest and largest finite number; a float as the shortest text that gives the same float,
            so that JSON needs no floats. None without numbers.
        not_finite: number of NaN and infinite values.
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
        """The statistics as plain JSON values, without None and without a zero of ``not_finite``."""
        values: dict[str, int | str] = {"nulls": self.nulls, "count": self.count}
        if self.minimum is not None:
            values["minimum"] = self.minimum
        if self.maximum is not None:
            values["maximum"] = self.maximum
        if self.not_finite:
            values["not_finite"] = self.not_finite
        if self.shortest is not None:
            values["shortest"] = self.shortest
        if self.longest is not None:
            values["longest"] = self.longest
        if self.total is not None:
            values["total"] = self.total
        return values


def from_json(value: Mapping[str, Any]) -> ColumnStatistics:
    """Statistics from plain JSON values; raises ``TypeError`` for an unknown name."""
    return ColumnStatistics(**value)


def merge(parts: Iterable[Mapping[str, ColumnStatistics]]) -> dict[str, ColumnStatistics]:
    """The statistics of several batches or shards as those of one, by path."""
    by_path: dict[str, list[ColumnStatistics]] = {}
    for part in parts:
        for path, statistics in part.items():
            by_path.setdefault(path, []).append(statistics)
    return {path: several[0] if len(several) == 1 else _combine(several) for path, several in by_path.items()}


def _combine(several: Sequence[ColumnStatistics]) -> ColumnStatistics:
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


def measure(batch: pa.RecordBatch) -> dict[str, ColumnStatistics]:
    """The statistics of every column of a batch, by path."""
    statistics: dict[str, ColumnStatistics] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _measure(name, column, statistics)
    return statistics


def _measure(path: str, column: pa.Array, statistics: dict[str, ColumnStatistics]) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    nulls, count = column.null_count, len(column) - column.null_count
    if pa.types.is_struct(kind):
        statistics[path] = ColumnStatistics(nulls=nulls, count=count)
        for member, child in zip(kind, column.flatten(), strict=True):
            _measure(f"{path}.{member.name}", child, statistics)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        statistics[path] = _lengths(nulls, count, column.value_lengths())
        _measure(f"{path}[]", column.flatten(), statistics)
    elif pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        known = ColumnStatistics(nulls, count, shortest=size, longest=size, total=size * count)
        statistics[path] = known if count else ColumnStatistics(nulls, count, total=0)
        _measure(f"{path}[]", column.flatten(), statistics)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        statistics[path] = _lengths(nulls, count, pc.binary_length(column))
    elif pa.types.is_integer(kind):
        low, high = _bounds(column)
        statistics[path] = ColumnStatistics(nulls, count, low, high)
    elif pa.types.is_floating(kind):
        statistics[path] = _floats(nulls, count, column)
    else:
        statistics[path] = ColumnStatistics(nulls=nulls, count=count)


def _lengths(nulls: int, count: int, lengths: pa.Array) -> ColumnStatistics:
    import pyarrow.compute as pc

    low, high = _bounds(lengths)
    total = pc.sum(lengths).as_py() or 0
    return ColumnStatistics(nulls, count, shortest=low, longest=high, total=total)


def _floats(nulls: int, count: int, column: pa.Array) -> ColumnStatistics:
    import numpy as np

    values = column.drop_null().to_numpy(zero_copy_only=False)
    finite = values[np.isfinite(values)]
    lost = len(values) - len(finite)
    if not len(finite):
        return ColumnStatistics(nulls, count, not_finite=lost)
    # + 0.0 turns a negative zero, which compares equal, into the one zero.
    low, high = (repr(float(v) + 0.0) for v in (finite.min(), finite.max()))
    return ColumnStatistics(nulls, count, low, high, lost)


def _bounds(column: pa.Array) -> tuple[int | None, int | None]:
    import pyarrow.compute as pc

    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py()
