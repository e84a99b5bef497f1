"""Conversations that are too long: what goes, in which order, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import GateError
from pipeline.models.families import limits_of
from pipeline.reasons import Policy
from tests.stages.chat import build
from tests.stages.chat.build import assistant, system, user

MESSAGES = {"source": {"format": "messages"}}
LONG = [
    system("s"),
    *(turn for i in range(4) for turn in (user(f"question {i} " * 4), assistant(f"answer {i} " * 4))),
]


def limited(limit: int, **chat: Any) -> Any:
    return build.context({**MESSAGES, "max_tokens": limit, **chat})


def length_of(turns: list[dict[str, Any]]) -> int:
    return len(build.run(build.context(MESSAGES), build.messages(turns)).rows()[0]["input_ids"])


def test_whole_oldest_exchanges_go_first_and_the_system_turn_stays() -> None:
    whole = length_of(LONG)
    fitting = [LONG[0], *LONG[5:]]
    outcome = build.run(limited(length_of(fitting)), build.messages(LONG))
    alone = build.run(build.context(MESSAGES), build.messages(fitting))
    row = outcome.rows()[0]
    assert row["input_ids"] == alone.rows()[0]["input_ids"]
    assert row["labels"] == alone.rows()[0]["labels"]
    assert row["turns"] == alone.rows()[0]["turns"]
    assert row["tokens_dropped"] == whole - len(row["input_ids"])
    assert outcome.reasons(0, Policy.REPAIR) == {"turns_truncated"}


def test_exactly_the_limit_fits() -> None:
    whole = length_of(LONG)
    assert build.run(limited(whole), build.messages(LONG)).findings.items == []
    assert build.run(limited(whole - 1), build.messages(LONG)).reasons(0, Policy.REPAIR) == {
        "turns_truncated"
    }


def test_an_answer_that_does_not_fit_is_set_aside() -> None:
    outcome = build.run(
        limited(30), build.messages([user("q"), assistant("word " * 60)], [user("q"), assistant("a")])
    )
    assert outcome.reasons(0) == {"too_long_for_target"}
    assert outcome.certified == [1]


def test_dropping_turns_can_be_refused() -> None:
    outcome = build.run(limited(100, drop_oldest_turns=False), build.messages(LONG))
    assert outcome.reasons(0) == {"too_long_for_target"}
    ctx = build.context({**MESSAGES, "max_tokens": 100}, policies={"sequence_too_long": "quarantine"})
    assert build.run(ctx, build.messages(LONG)).reasons(0) == {"sequence_too_long"}


def test_a_cut_prompt_leaves_the_answer_whole() -> None:
    turns = [user("word " * 80), assistant("the whole answer")]
    outcome = build.run(limited(60, too_long="truncate_prompt"), build.messages(turns))
    row = outcome.rows()[0]
    whole, learned = outcome.texts()
    assert len(row["input_ids"]) <= 60
    assert row["tokens_dropped"] == length_of(turns) - len(row["input_ids"])
    assert learned == "the whole answer<|eot_id|>"
    assert "\n\nword word" in whole
    assert outcome.reasons(0, Policy.FLAG) == {"prompt_truncated"}
    assert len(row["input_ids"]) > 50  # no more is cut than must be


def test_a_prompt_cannot_be_cut_to_nothing() -> None:
    turns = [user("ab"), assistant("word " * 80)]
    outcome = build.run(limited(60, too_long="truncate_prompt"), build.messages(turns))
    assert outcome.reasons(0) == {"too_long_for_target"}


def test_a_cut_answer_has_no_invented_end() -> None:
    turns = [user("q"), assistant("word " * 80)]
    outcome = build.run(limited(40, too_long="truncate_answer"), build.messages(turns))
    row, tokenizer = outcome.rows()[0], outcome.encode.codec.tokenizer
    full = build.run(build.context(MESSAGES), build.messages(turns)).rows()[0]
    assert row["input_ids"] == full["input_ids"][:40]
    assert row["labels"] == full["labels"][:40]
    assert row["input_ids"][-1] != tokenizer.id_of("<|eot_id|>")
    assert row["turns"][-1]["end"] == 40
    assert outcome.reasons(0, Policy.FLAG) == {"answer_truncated"}


def test_a_prompt_that_fills_the_limit_leaves_nothing_to_learn() -> None:
    turns = [user("word " * 80), assistant("lost")]
    outcome = build.run(limited(40, too_long="truncate_answer"), build.messages(turns))
    assert outcome.reasons(0) == {"no_supervised_tokens"}
    assert outcome.certified == []


def test_an_error_stops_the_run_and_names_the_row() -> None:
    rows = [[user("q"), assistant("a")], [user("q"), assistant("word " * 80)]]
    with pytest.raises(GateError) as caught:
        build.run(limited(40, too_long="error"), build.messages(*rows))
    assert caught.value.where == "chats.jsonl, row 2"


def test_the_models_limit_counts_too() -> None:
    ctx = build.context(MESSAGES)
    limits = limits_of({"vocab_size": 2000, "max_position_embeddings": 40}, tokenizer_size=1411, pad_id=3)
    outcome = build.run(replace(ctx, limits=limits), build.messages([user("q"), assistant("word " * 80)]))
    assert outcome.reasons(0) == {"too_long_for_target"}


texts = st.text(st.sampled_from("ab é\n"), min_size=1, max_size=30).filter(lambda t: bool(t.strip()))
chats = st.lists(texts, min_size=2, max_size=8).map(
    lambda t: [(user, assistant)[i % 2](text) for i, text in enumerate(t[: len(t) // 2 * 2])]
)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(chats, min_size=1, max_size=5),
    st.integers(20, 90),
    st.sampled_from(["quarantine", "truncate_prompt", "truncate_answer"]),
)
def test_nothing_certified_is_longer_than_the_limit(rows: list[Any], limit: int, too_long: str) -> None:
    outcome = build.run(limited(limit, too_long=too_long), build.messages(*rows))
    full = build.run(build.context(MESSAGES), build.messages(*rows))
    lengths = dict(zip(full.certified, (len(r["input_ids"]) for r in full.rows()), strict=True))
    for record, row in zip(outcome.certified, outcome.rows(), strict=True):
        assert len(row["input_ids"]) <= limit
        assert row["tokens_dropped"] == lengths[record] - len(row["input_ids"])
        assert (row["tokens_dropped"] > 0) == bool(
            outcome.reasons(record, Policy.FLAG) | outcome.reasons(record, Policy.REPAIR)
        )
    for record in set(range(len(rows))) - set(outcome.certified):
        assert lengths[record] > limit
        assert outcome.reasons(record)
