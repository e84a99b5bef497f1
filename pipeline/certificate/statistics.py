"""Statistics of a whole data set, from those of its shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipeline.shards.column import merge
from pipeline.shards.part import Part

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def of_parts(parts: Iterable[Part]) -> dict[str, dict[str, Any]]:
    """Statistics by column path over all shards of a data set, as plain JSON values."""
    whole = merge(part.statistics for part in parts)
    return {path: facts.to_json() for path, facts in sorted(whole.items())}


def histogram(lengths: npt.NDArray[np.integer[Any]]) -> dict[str, int]:
    """Samples by length, in buckets that double: the key is the bucket's upper end ("64" holds 33 to 64)."""
    if not len(lengths):
        return {}
    import numpy as np

    powers = np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    buckets, counts = np.unique(powers, return_counts=True)
    return {str(1 << int(power)): int(count) for power, count in zip(buckets, counts, strict=True)}


def total(histograms: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Several histograms together, in order of their buckets."""
    whole: dict[str, int] = {}
    for counts in histograms:
        for bucket, count in counts.items():
            whole[bucket] = whole.get(bucket, 0) + count
    return dict(sorted(whole.items(), key=lambda item: int(item[0])))
