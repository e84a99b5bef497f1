"""Facts about one column: plain data, merged by arithmetic alone. They are measured in ``statistics.py``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


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


def merge(parts: Iterable[Mapping[str, ColumnStatistics]]) -> dict[str, ColumnStatistics]:
    """Statistics of several batches or shards together, by path."""
    whole: dict[str, ColumnStatistics] = {}
    for part in parts:
        for path, facts in part.items():
            whole[path] = whole[path].merge(facts) if path in whole else facts
    return whole


def _least(a: int | str | None, b: int | str | None, *, smallest: bool) -> int | str | None:
    known = [value for value in (a, b) if value is not None]
    if not known:
        return None
    return min(known, key=float) if smallest else max(known, key=float)


def _either(join: Any, a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return a if b is None else b
    return int(join(a, b))
