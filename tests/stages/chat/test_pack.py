"""Packing and the token budget: nothing lost, nothing over, the waste known."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.report.token_budget import TokenBudget, budget_of, total_budget
from pipeline.stages.chat.pack import Pack, best_fit, unpacked
from pipeline.stages.sample_columns import with_content_id
from tests.stages.chat import build
from tests.stages.chat.build import assistant, user

PACKED = {"source": {"format": "messages"}, "max_tokens": 64, "packing": {"capacity": 64}}


@given(st.lists(st.integers(1, 20), max_size=40))
def test_bins_hold_every_sample_once_and_never_too_much(sizes: list[int]) -> None:
    bins = best_fit(np.array(sizes, np.int64), 20)
    assert sorted(i for members in bins for i in members.tolist()) == list(range(len(sizes)))
    loads = sorted(sum(sizes[i] for i in members) for members in bins)
    assert all(load <= 20 for load in loads)
    # Best fit never leaves two bins that could have been one.
    assert len(loads) < 2 or loads[0] + loads[1] > 20


texts = st.text(st.sampled_from("ab é"), min_size=1, max_size=14).filter(lambda t: bool(t.strip()))
chats = st.builds(lambda a, b: [user(a), assistant(b)], texts, texts)


@settings(max_examples=40, deadline=None)
@given(st.lists(chats, min_size=1, max_size=10))
def test_packed_sequences_hold_the_samples_as_they_were(rows: list[Any]) -> None:
    alone = build.run(build.context(PACKED), build.messages(*rows))
    before = {row["sample_id"]: row for row in alone.rows()}
    packed = Pack(64)(alone.samples)
    seen: Counter[str] = Counter()
    for row in packed.table.to_pylist():
        assert 0 < len(row["input_ids"]) <= 64
        heads = [i for i, position in enumerate(row["position_ids"]) if position == 0]
        assert len(heads) == len(row["samples"])
        seen.update(row["samples"])
        turns = iter(row["turns"])
        for name, head, end in zip(row["samples"], heads, [*heads[1:], len(row["input_ids"])], strict=True):
            own = before[name]
            assert row["input_ids"][head:end] == own["input_ids"]
            assert row["position_ids"][head:end] == list(range(end - head))
            assert row["labels"][head:end] == [-100, *own["labels"][1:]]
            for turn in own["turns"]:
                moved = next(turns)
                assert (moved["role"], moved["start"] - head) == (turn["role"], turn["start"])
    assert seen == Counter(list(before))


def test_an_empty_batch_packs_to_nothing() -> None:
    empty = build.run(build.context(PACKED), build.messages([user("only")])).samples
    assert Pack(64)(empty).table.num_rows == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(chats, min_size=1, max_size=8))
def test_the_budget_counts_what_a_causal_loss_counts(rows: list[Any]) -> None:
    samples = build.run(build.context(PACKED), build.messages(*rows)).samples
    budget = budget_of(samples)
    table = samples.table.to_pylist()
    assert budget.tokens == sum(len(row["input_ids"]) for row in table)
    assert budget.supervised == sum(label != -100 for row in table for label in row["labels"][1:])
    lengths = sorted(len(row["input_ids"]) for row in table)
    assert budget.percentile(100) == lengths[-1]
    assert budget.percentile(50) == lengths[(len(lengths) + 1) // 2 - 1]
    assert budget.over(lengths[0]) == sum(size > lengths[0] for size in lengths)
    half = len(table) // 2
    parts = [
        budget_of(type(samples)(samples.table[a:b], samples.ids[a:b]))
        for a, b in ((0, half), (half, len(table)))
    ]
    assert total_budget(parts) == budget


def test_steps_and_summary() -> None:
    budget = TokenBudget(samples=10, tokens=100, supervised=40, lengths={10: 10})
    assert budget.steps(4) == 3
    assert budget.steps(4, epochs=2) == 6
    assert budget.summary()["length_p50"] == 10
    assert budget.summary()["samples_over_1024"] == 0
    assert TokenBudget().summary()["length_p99"] == 0
    assert (
        budget_of(build.run(build.context(PACKED), build.messages([user("only")])).samples) == TokenBudget()
    )


def test_a_packed_batch_shows_its_waste() -> None:
    rows = [[user("q"), assistant("a")]] * 5
    packed = Pack(64)(build.run(build.context(PACKED), build.messages(*rows)).samples)
    budget = budget_of(packed, capacity=64)
    assert budget.capacity == 64 * packed.table.num_rows
    assert budget.summary()["packed_capacity"] == budget.capacity
    assert budget.tokens <= budget.capacity


def test_what_each_packed_record_teaches_can_still_be_told() -> None:
    rows = [[user("q"), assistant(f"answer {i % 3}")] for i in range(7)]
    alone = with_content_id(build.run(build.context(PACKED), build.messages(*rows)).samples, [])
    packed = Pack(64)(alone)
    assert packed.table.num_rows < 7
    found = [unpacked(batch).to_pydict() for batch in packed.table.to_batches()]
    told = sorted(
        (row, content) for part in found for row, content in zip(part["row"], part["content_id"], strict=True)
    )
    assert told == sorted(
        zip(alone.table["row"].to_pylist(), alone.table["content_id"].to_pylist(), strict=True)
    )


@pytest.mark.parametrize("chat", [{"max_tokens": 65}, {"source": {"format": "preference"}}])
def test_what_cannot_be_packed_is_said_before_any_row(chat: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        build.run(build.context({**PACKED, **chat}), build.messages([user("q"), assistant("a")]))
