"""The token budget of chats: what there is to train on, for the run's summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.batch import Samples

MARKS = (1024, 2048, 4096)
"""Lengths whose longer samples are counted."""
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Counts over samples; budgets of parts add up to the budget of the whole.

    Attributes:
        samples, tokens: of the certified set.
        supervised: tokens whose label is counted by a causal loss (position 0 is shifted away).
        dropped: tokens cut to fit the limit.
        capacity: tokens the samples have room for, where they are packed; 0 otherwise.
        lengths: number of samples by their exact length.
    """

    samples: int = 0
    tokens: int = 0
    supervised: int = 0
    dropped: int = 0
    capacity: int = 0
    lengths: dict[int, int] = field(default_factory=dict)

    def over(self, length: int) -> int:
        """Samples longer than a length."""
        return sum(count for size, count in self.lengths.items() if size > length)

    def percentile(self, share: int) -> int:
        """The smallest length that ``share`` percent of the samples do not exceed; 0 without samples."""
        need, seen = -(-self.samples * share // 100), 0
        for size in sorted(self.lengths):
            seen += self.lengths[size]
            if seen >= need:
                return size
        return 0

    def steps(self, batch_size: int, epochs: int = 1) -> int:
        """Optimizer steps of a training run; the last batch of an epoch may be smaller."""
        return epochs * -(-self.samples // batch_size)

    def summary(self) -> dict[str, int]:
        """Whole numbers by name, in a fixed order; for the report and the metrics."""
        facts = {
            "samples": self.samples,
            "tokens": self.tokens,
            "supervised_tokens": self.supervised,
            "dropped_tokens": self.dropped,
        }
        facts |= {f"length_p{share}": self.percentile(share) for share in PERCENTILES}
        facts |= {f"samples_over_{mark}": self.over(mark) for mark in MARKS}
        if self.capacity:
            facts["packed_capacity"] = self.capacity
        return facts


def budget_of(samples: Samples, capacity: int = 0) -> TokenBudget:
    """The budget of some samples of a chat data set.

    Args:
        capacity: tokens that each packed sample has room for; 0 where nothing is packed.
    """
    import numpy as np

    from pipeline.arrays import flat
    from pipeline.shards.arrow import IGNORE

    labels, lengths = flat(samples.table["labels"])
    learned = labels != IGNORE
    heads = (np.cumsum(lengths) - lengths)[lengths > 0]
    learned[heads] = False
    dropped = (
        samples.table["tokens_dropped"].to_numpy() if "tokens_dropped" in samples.table.column_names else 0
    )
    sizes, counts = np.unique(lengths, return_counts=True)
    return TokenBudget(
        samples=len(lengths),
        tokens=int(lengths.sum()),
        supervised=int(learned.sum()),
        dropped=int(np.sum(dropped)),
        capacity=capacity * len(lengths),
        lengths=dict(zip(sizes.tolist(), counts.tolist(), strict=True)),
    )


def total(budgets: Iterable[TokenBudget]) -> TokenBudget:
    """The budget of all parts together."""
    parts = list(budgets)
    lengths: Counter[int] = Counter()
    for part in parts:
        lengths.update(part.lengths)
    return TokenBudget(
        samples=sum(part.samples for part in parts),
        tokens=sum(part.tokens for part in parts),
        supervised=sum(part.supervised for part in parts),
        dropped=sum(part.dropped for part in parts),
        capacity=sum(part.capacity for part in parts),
        lengths=dict(sorted(lengths.items())),
    )
