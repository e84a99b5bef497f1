"""Which samples go into which step: batches of like length by a budget of tokens.

A **step** is one update of the weights. It is cut into a fixed number of **micro-batches** of one shape, which the
ranks share: rank r of W takes micro-batches r, r + W, … and adds their gradients up. So a step has the same samples
on 1, 2 or 8 ranks, every rank has the same shapes, and none starves.

The order depends on the seed, the epoch and the lengths alone: not on the number of ranks, not on a library's random
generator. A job that is stopped goes on at the very next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from pipeline.certificate.digest import digest_of

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
FILLER = -1
"""Stands where an epoch's last step has no sample left: a repeated sample whose labels are all ignored."""
POOL_STEPS = 64
"""Steps whose samples are sorted by length together: more pads less, and mixes less."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How large a micro-batch is.

    Attributes:
        tokens: most tokens of a micro-batch, pads and overhead counted; 0 where ``samples`` decides.
        samples: samples of a micro-batch; with ``tokens``, the most.
        micro_batches: micro-batches of one step, over all ranks together.
        longest: most tokens of a sample; no width is larger.
        multiple: widths are multiples of this, so that few shapes occur.
        overhead: tokens that each sample brings beside its text (the patches of a page image).
        pad_to_longest: whether every batch is padded to ``longest`` (for comparison).
    """

    tokens: int
    samples: int
    micro_batches: int = 1
    longest: int = 512
    multiple: int = 64
    overhead: int = 0
    pad_to_longest: bool = False

    def width(self, length: int) -> int:
        """Padded length of a batch whose longest sample has ``length`` tokens."""
        if self.pad_to_longest:
            return self.longest
        return min(-(-length // self.multiple) * self.multiple, max(self.longest, length))

    def size(self, width: int) -> int:
        """Samples of a micro-batch of this width, at least one."""
        if not self.tokens:
            return self.samples
        return max(1, min(self.samples or 1 << 30, self.tokens // (width + self.overhead)))


@dataclass(frozen=True, slots=True)
class Step:
    """The samples of one update.

    Attributes:
        rows: int64 [micro-batches, samples], index of each sample, ``FILLER`` where none is left.
        width: length that all are padded to.
    """

    rows: Int64s
    width: int

    def of_rank(self, rank: int, world: int) -> Int64s:
        """The micro-batches of one rank, int64 [micro-batches / world, samples]."""
        return self.rows[rank::world]

    def samples(self) -> Int64s:
        """All samples, without fillers."""
        real: Int64s = self.rows[self.rows != FILLER]
        return real


class Batches:
    """The order of a whole job.

    Args:
        lengths: int64 [rows], tokens of each sample.
        budget: size of micro-batches.
        seed: of the order.
        shuffle: False keeps the order of the shards (for evaluation).

    Attributes:
        digest: of all that decides the order; a checkpoint carries it.
    """

    def __init__(self, lengths: Int64s, budget: Budget, seed: int = 0, *, shuffle: bool = True) -> None:
        self.lengths, self.budget, self.seed, self.shuffle = lengths, budget, seed, shuffle
        known = {"order": 1, "budget": asdict(budget), "seed": seed, "rows": len(lengths), "shuffle": shuffle}
        self.digest = digest_of(known)

    def epoch(self, number: int) -> list[Step]:
        """The steps of one epoch: every sample exactly once."""
        if not len(self.lengths):
            return []
        if not self.shuffle:
            return list(self._steps(np.arange(len(self.lengths))))
        steps = list(self._steps(_shuffled(len(self.lengths), self.seed, number)))
        mixed = [steps[i] for i in _shuffled(len(steps), self.seed, ~number)]
        if number == 0:
            # The largest step comes first: what does not fit the card's memory shows at once.
            largest = max(range(len(mixed)), key=lambda i: self._cost(mixed[i]))
            mixed.insert(0, mixed.pop(largest))
        return mixed

    def follow(
        self, epoch: int = 0, index: int = 0, epochs: int | None = None
    ) -> Iterator[tuple[int, int, Step]]:
        """Steps from a place on, each with its epoch and its index in it; for ever where ``epochs`` is None."""
        while epochs is None or epoch < epochs:
            steps = self.epoch(epoch)
            if not steps:
                return
            for at in range(index, len(steps)):
                yield epoch, at, steps[at]
            epoch, index = epoch + 1, 0

    def efficiency(self, epoch: int = 0) -> float:
        """Share of the tokens computed in an epoch that are no pads (overhead left out)."""
        padded = sum(step.rows.size * step.width for step in self.epoch(epoch))
        return float(self.lengths.sum()) / padded if padded else 1.0

    def _cost(self, step: Step) -> int:
        return int(step.rows.shape[1]) * (step.width + self.budget.overhead)

    def _steps(self, order: Int64s) -> Iterator[Step]:
        """Cut samples into steps: sort a pool by length, cut from the longest on, carry what is left over."""
        mean = max(1, int(self.lengths.mean()))
        pool = POOL_STEPS * self.budget.micro_batches * self.budget.size(self.budget.width(mean))
        left = order[:0]
        for start in range(0, len(order), pool):
            whole = np.concatenate([left, order[start : start + pool]])
            if not self.budget.pad_to_longest:
                whole = whole[np.argsort(-self.lengths[whole], kind="stable")]
            cut = self._cut(whole, last=start + pool >= len(order))
            yield from cut
            left = whole[sum(len(step.samples()) for step in cut) :]

    def _cut(self, whole: Int64s, *, last: bool) -> list[Step]:
        """Steps from the front of a sorted pool; what fills no step is left, except in the last pool."""
        budget, steps, at = self.budget, [], 0
        while at < len(whole):
            width = budget.width(int(self.lengths[whole[at]]))
            size = budget.size(width)
            taken = whole[at : at + budget.micro_batches * size]
            if len(taken) < budget.micro_batches * size:
                if not last:
                    break
                size = -(-len(taken) // budget.micro_batches)
            rows = np.full(budget.micro_batches * size, FILLER, np.int64)
            rows[: len(taken)] = taken
            # Neighbours in length go to different micro-batches, so that all of them are alike.
            steps.append(Step(np.ascontiguousarray(rows.reshape(size, budget.micro_batches).T), width))
            at += len(taken)
        return steps


def _shuffled(count: int, seed: int, stream: int) -> Int64s:
    return np.argsort(_keys(count, seed, stream), kind="stable")


def _keys(count: int, seed: int, stream: int) -> UInt64s:
    """A random-looking key a row: SplitMix64 (Steele, Lea, Flood 2014) of row, seed and stream, the same in every
    version of every library."""
    start = (seed * 0x9E3779B97F4A7C15 + (stream + 1) * 0xD1B54A32D192ED03) & (2**64 - 1)
    with np.errstate(over="ignore"):
        x = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(start)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
