"""The order of a job: every sample once, one shape a step, the same on any number of ranks, resumed exactly."""

from __future__ import annotations

from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.train.batches import FILLER, Batches, Budget

LENGTHS = st.lists(st.integers(1, 512), min_size=1, max_size=600).map(lambda x: np.array(x, np.int64))
BUDGETS = st.builds(
    Budget,
    tokens=st.sampled_from([0, 512, 1024, 4096]),
    samples=st.integers(1, 16),
    micro_batches=st.sampled_from([1, 2, 8]),
    multiple=st.sampled_from([1, 8, 64]),
    overhead=st.sampled_from([0, 197]),
    pad_to_longest=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, BUDGETS, st.integers(0, 3), st.booleans())
def test_an_epoch_holds_every_sample_once_and_no_step_is_over_its_budget(
    lengths: np.ndarray, budget: Budget, epoch: int, shuffle: bool
) -> None:
    steps = Batches(lengths, budget, seed=3, shuffle=shuffle).epoch(epoch)
    seen = np.concatenate([step.samples() for step in steps])
    assert sorted(seen.tolist()) == list(range(len(lengths)))
    for step in steps:
        assert step.rows.shape[0] == budget.micro_batches
        assert lengths[step.samples()].max() <= step.width <= 512
        size = step.rows.shape[1]
        assert size == 1 or not budget.tokens or size * (step.width + budget.overhead) <= budget.tokens
        assert size <= budget.samples


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(1, 4))
def test_fillers_stand_in_one_step_only(lengths: np.ndarray, size: int) -> None:
    steps = Batches(lengths, Budget(0, size, micro_batches=8), seed=1).epoch(1)
    short = [step for step in steps if (step.rows == FILLER).any()]
    assert len(short) <= 1
    assert sum(int((step.rows == FILLER).sum()) for step in short) < 8


@given(LENGTHS, BUDGETS.filter(lambda budget: budget.micro_batches == 8))
@settings(max_examples=30, deadline=None)
def test_ranks_share_the_same_step(lengths: np.ndarray, budget: Budget) -> None:
    for step in Batches(lengths, budget).epoch(0):
        for world in (1, 2, 4, 8):
            parts = [step.of_rank(rank, world) for rank in range(world)]
            assert len({part.shape for part in parts}) == 1
            assert sorted(np.concatenate(parts).ravel().tolist()) == sorted(step.rows.ravel().tolist())


@given(LENGTHS, BUDGETS, st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_going_on_from_a_place_gives_the_rest_of_the_order(
    lengths: np.ndarray, budget: Budget, skip: int
) -> None:
    order = list(islice(Batches(lengths, budget, seed=5).follow(), 30))
    epoch, at, _ = order[min(skip, len(order) - 1)]
    rest = Batches(lengths, budget, seed=5).follow(epoch, at)
    for (e1, i1, one), (e2, i2, two) in zip(order[skip:], rest, strict=False):
        assert (e1, i1, one.width) == (e2, i2, two.width)
        assert np.array_equal(one.rows, two.rows)


def test_epochs_and_seeds_differ_and_the_order_is_pinned() -> None:
    lengths = np.random.RandomState(0).randint(1, 512, 400)
    first = Batches(lengths, Budget(4096, 64), seed=0)
    one, two = first.epoch(0), first.epoch(1)
    other = Batches(lengths, Budget(4096, 64), seed=1).epoch(0)
    assert not np.array_equal(one[1].rows, two[1].rows)
    assert not np.array_equal(one[1].rows, other[1].rows)
    # A change of this order would silently break the resume of every checkpoint there is.
    assert one[0].rows.ravel()[:6].tolist() == PINNED


def test_the_largest_step_comes_first() -> None:
    lengths = np.random.RandomState(1).randint(1, 512, 3000)
    steps = Batches(lengths, Budget(8192, 64)).epoch(0)
    assert steps[0].rows.shape[1] * steps[0].width == max(s.rows.shape[1] * s.width for s in steps)


def useful_share(batches: Batches) -> float:
    """Share of the computed tokens that are no pads."""
    return float(batches.lengths.sum()) / sum(step.rows.size * step.width for step in batches.epoch(0))


def test_like_lengths_go_together() -> None:
    lengths = np.random.RandomState(2).randint(10, 512, 5000)
    bucketed = useful_share(Batches(lengths, Budget(16384, 0)))
    padded = useful_share(Batches(lengths, Budget(16384, 0, pad_to_longest=True)))
    assert bucketed > 0.85
    assert abs(padded - lengths.mean() / 512) < 0.02


PINNED = [146, 85, 284, 20, 15, 42]
