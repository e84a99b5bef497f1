"""The order of training: which samples go into which step, in batches of similar length with a token budget.

A **step** is one update of the weights. It consists of a fixed number of **micro-batches** of one shape. Rank r of W
takes micro-batches r, r + W, … and sums their gradients. So a step has the same samples on 1, 2 or 8 ranks, all ranks
have the same shapes, and each has work.

The order depends on the seed, the epoch and the lengths alone, not on the number of ranks or the random generator of a
library. A stopped job resumes at the next step.
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
"""Index in the last step of an epoch where no sample is left: a repeated sample whose labels are all ignored."""
POOL_STEPS = 64
"""Number of steps whose samples are sorted by length together. More steps need fewer pads and mix less."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The size of a micro-batch.

    Attributes:
        tokens: largest number of tokens of a micro-batch, with pads and overhead; 0: ``samples`` decides.
        samples: number of samples of a micro-batch; with ``tokens``, the largest number.
        micro_batches: number of micro-batches of one step, over all ranks.
        longest: largest number of tokens of a sample; no width is larger.
        multiple: each width is a multiple of it, so that few shapes occur.
        overhead: number of tokens of a sample in addition to its text (the patches of a page image).
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
        """Number of samples of a micro-batch of this width, at least one."""
        if not self.tokens:
            return self.samples
        return max(1, min(self.samples or 1 << 30, self.tokens // (width + self.overhead)))


@dataclass(frozen=True, slots=True)
class Step:
    """The samples of one update.

    Attributes:
        rows: int64 [micro-batches, samples], index of each sample, ``FILLER`` where no sample is left.
        width: padded length of all samples, in tokens.
    """

    rows: Int64s
    width: int

    def of_rank(self, rank: int, world: int) -> Int64s:
        """The micro-batches of one rank, int64 [micro-batches / world, samples]."""
        return self.rows[rank::world]

    def samples(self) -> Int64s:
        """The indices of all samples without fillers, int64."""
        real: Int64s = self.rows[self.rows != FILLER]
        return real


class Batches:
    """The order of a whole job.

    Args:
        lengths: int64 [rows], number of tokens of each sample.
        budget: size of micro-batches.
        seed: of the order.
        shuffle: False keeps the order of the shards (for evaluation).

    Attributes:
        digest: of everything that decides the order; a checkpoint holds it.
    """

    def __init__(self, lengths: Int64s, budget: Budget, seed: int = 0, *, shuffle: bool = True) -> None:
        self.lengths, self.budget, self.seed, self.shuffle = lengths, budget, seed, shuffle
        decides = {
            "order": 1,
            "budget": asdict(budget),
            "seed": seed,
            "rows": len(lengths),
            "shuffle": shuffle,
        }
        self.digest = digest_of(decides)

    def epoch(self, number: int) -> list[Step]:
        """The steps of one epoch, with every sample exactly once."""
        if not len(self.lengths):
            return []
        if not self.shuffle:
            return list(self._steps(np.arange(len(self.lengths))))
        steps = list(self._steps(_shuffled(len(self.lengths), self.seed, number)))
        mixed = [steps[i] for i in _shuffled(len(steps), self.seed, ~number)]
        if number == 0:
            # The largest step comes first, so that a lack of memory shows at once.
            largest = max(range(len(mixed)), key=lambda i: self._cost(mixed[i]))
            mixed.insert(0, mixed.pop(largest))
        return mixed

    def follow(
        self, epoch: int = 0, index: int = 0, epochs: int | None = None
    ) -> Iterator[tuple[int, int, Step]]:
        """(epoch, index in the epoch, step) from a position on; without end where ``epochs`` is None."""
        while epochs is None or epoch < epochs:
            steps = self.epoch(epoch)
            if not steps:
                return
            for number in range(index, len(steps)):
                yield epoch, number, steps[number]
            epoch, index = epoch + 1, 0

    def _cost(self, step: Step) -> int:
        return int(step.rows.shape[1]) * (step.width + self.budget.overhead)

    def _steps(self, order: Int64s) -> Iterator[Step]:
        """Divide samples into steps: sort a pool by length, take steps from the longest on, keep the rest for the next
        pool."""
        mean = max(1, int(self.lengths.mean()))
        pool = POOL_STEPS * self.budget.micro_batches * self.budget.size(self.budget.width(mean))
        left = order[:0]
        for start in range(0, len(order), pool):
            rows = np.concatenate([left, order[start : start + pool]])
            if not self.budget.pad_to_longest:
                rows = rows[np.argsort(-self.lengths[rows], kind="stable")]
            steps = self._steps_of_pool(rows, last=start + pool >= len(order))
            yield from steps
            left = rows[sum(len(step.samples()) for step in steps) :]

    def _steps_of_pool(self, pool: Int64s, *, last: bool) -> list[Step]:
        """Steps from the front of a sorted pool; samples that fill no step are left, except in the last pool."""
        budget, steps, start = self.budget, [], 0
        while start < len(pool):
            width = budget.width(int(self.lengths[pool[start]]))
            size = budget.size(width)
            taken = pool[start : start + budget.micro_batches * size]
            if len(taken) < budget.micro_batches * size:
                if not last:
                    break
                size = -(-len(taken) // budget.micro_batches)
            rows = np.full(budget.micro_batches * size, FILLER, np.int64)
            rows[: len(taken)] = taken
            # Neighbours in length go to different micro-batches, so that these are similar.
            steps.append(Step(np.ascontiguousarray(rows.reshape(size, budget.micro_batches).T), width))
            start += len(taken)
        return steps


def _shuffled(count: int, seed: int, stream: int) -> Int64s:
    return np.argsort(_keys(count, seed, stream), kind="stable")


def _keys(count: int, seed: int, stream: int) -> UInt64s:
    """A pseudorandom key per row, uint64 [count]: SplitMix64 (Steele, Lea, Flood 2014) of row, seed and stream. It is
    the same in every version of every library."""
    start = (seed * 0x9E3779B97F4A7C15 + (stream + 1) * 0xD1B54A32D192ED03) & (2**64 - 1)
    with np.errstate(over="ignore"):
        x = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(start)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
