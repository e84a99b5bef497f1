"""Splits: stable, in the declared shares, and different under another salt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema.model import Split
from pipeline.stages.sample_columns import assign_splits

SPLIT = Split(key="id", shares={"train": 0.8, "eval": 0.15, "test": 0.05})


@given(st.lists(st.text(), max_size=20), st.lists(st.text(), max_size=20))
def test_a_key_keeps_its_split_whatever_other_rows_there_are(keys: list[str], more: list[str]) -> None:
    alone = dict(zip(keys, assign_splits(keys, SPLIT).tolist(), strict=True))
    among = dict(zip(more + keys, assign_splits(more + keys, SPLIT).tolist(), strict=True))
    assert all(among[key] == split for key, split in alone.items())


def test_the_shares_are_the_declared_ones() -> None:
    names = assign_splits([f"row {i}" for i in range(20_000)], SPLIT).tolist()
    counts = {name: names.count(name) / len(names) for name in SPLIT.shares}
    assert all(abs(counts[name] - share) < 0.01 for name, share in SPLIT.shares.items())


def test_another_salt_gives_another_split() -> None:
    keys = [str(i) for i in range(100)]
    salted = SPLIT.model_copy(update={"salt": "two"})
    assert assign_splits(keys, SPLIT).tolist() != assign_splits(keys, salted).tolist()


def test_a_share_of_nothing_gets_nothing_and_a_share_of_all_gets_all() -> None:
    split = Split(key="id", shares={"train": 1.0, "eval": 0.0})
    assert set(assign_splits([str(i) for i in range(1000)], split).tolist()) == {"train"}


def test_the_assignment_is_pinned() -> None:
    """A change here moves rows between the splits of every user."""
    assert assign_splits([f"k{i}" for i in range(12)], SPLIT).tolist() == PINNED


PINNED = ["train"] * 3 + ["eval"] * 2 + ["train"] * 7
