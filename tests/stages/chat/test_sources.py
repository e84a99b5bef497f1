"""From each format to the same turns."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.stages.chat import build
from tests.stages.chat.build import assistant, system, user

KEEP = {"output": {"keep_record": True}}


def records(outcome: build.Outcome) -> list[list[tuple[str, str]]]:
    return [
        [(m["role"], m["content"]) for m in json.loads(row["record"])["messages"]] for row in outcome.rows()
    ]


def learned(outcome: build.Outcome) -> list[str]:
    return [outcome.texts(i)[1].replace("<|eot_id|>", "|") for i in range(len(outcome.rows()))]


def test_columns_with_a_constant_system_prompt() -> None:
    ctx = build.context(
        {"source": {"format": "columns", "prompt": "q", "answer": "a", "system": "S"}}, **KEEP
    )
    outcome = build.run(ctx, build.batch(prompt=["x", "y", None], answer=["1", " ", "3"]))
    assert records(outcome) == [[("system", "S"), ("user", "x"), ("assistant", "1")]]
    assert outcome.reasons(1) == {"content_empty"}
    assert outcome.reasons(2) == set()  # the cast stage says what is missing
    assert [f.column for f in outcome.findings.items] == ["a"]


def test_a_blank_optional_system_cell_gives_no_system_turn() -> None:
    source = {"format": "columns", "prompt": "q", "answer": "a", "system": {"column": "s"}}
    outcome = build.run(
        build.context({"source": source}, **KEEP),
        build.batch(prompt=["x"] * 4, answer=["1"] * 4, system=["S", None, "  ", "\u200b"]),
    )
    assert [turns[0][0] for turns in records(outcome)] == ["system", "user", "user", "user"]


def test_a_blank_alpaca_input_is_legitimate() -> None:
    ctx = build.context({"source": {"format": "alpaca", "system": "S"}}, **KEEP)
    given = build.batch(
        instruction=["Translate.", "Name three.", "x", "y"],
        input=["Moin", "", None, "in"],
        output=["Hi", "a", "b", ""],
    )
    outcome = build.run(ctx, given)
    prompts = [turns[1][1] for turns in records(outcome)]
    assert prompts == ["Translate.\n\nMoin", "Name three.", "x"]
    assert outcome.reasons(3) == {"content_empty"}


def test_alpaca_history_comes_first() -> None:
    ctx = build.context({"source": {"format": "alpaca", "history": "h"}}, **KEEP)
    history = ['[["a", "b"], ["c", "d"]]', "[]", None, '[["a"]]', '{"a": 1}']
    outcome = build.run(
        ctx, build.batch(instruction=["i"] * 5, input=[None] * 5, output=["o"] * 5, history=history)
    )
    assert records(outcome)[0] == [
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
        ("assistant", "d"),
        ("user", "i"),
        ("assistant", "o"),
    ]
    assert outcome.certified == [0, 1, 2]
    assert outcome.reasons(3) == outcome.reasons(4) == {"value_type"}


def test_of_a_prompt_and_a_completion_only_the_completion_is_learned() -> None:
    ctx = build.context({"source": {"format": "prompt_completion"}}, **KEEP)
    prompts = build.lists([[{"content": "p"}], [user("a"), assistant("b"), user("c")]])
    completions = build.lists([[{"content": "q"}], [assistant("d")]])
    outcome = build.run(ctx, build.batch(prompt=prompts, completion=completions))
    assert records(outcome)[0] == [("user", "p"), ("assistant", "q")]
    assert learned(outcome) == ["q|", "d|"]


def test_a_pair_has_both_answers_and_one_prompt() -> None:
    ctx = build.context({"source": {"format": "preference"}})
    one = lambda text: [{"content": text}]  # noqa: E731
    given = build.batch(
        prompt=build.lists([one("p"), one("p"), one(""), one("p")]),
        chosen=build.lists([one("good"), one("same"), one("x"), one("x")]),
        rejected=build.lists([one("bad"), one("same"), one("y"), one("")]),
    )
    outcome = build.run(ctx, given)
    assert outcome.certified == [0]
    row, tokenizer = outcome.rows()[0], outcome.encode.codec.tokenizer
    assert tokenizer.decode([i for i in row["labels"] if i != -100]) == "good<|eot_id|>"
    assert tokenizer.decode([i for i in row["rejected_labels"] if i != -100]) == "bad<|eot_id|>"
    assert [outcome.reasons(i) for i in (1, 2, 3)] == [
        {"preference_identical"},
        {"content_empty"},
        {"content_empty"},
    ]
    assert sum(len(f.ids) for f in outcome.findings.items) == 3  # the prompt is judged once


def test_answers_may_hold_the_whole_conversation() -> None:
    whole = [system("s"), user("p"), assistant("earlier"), user("q")]
    chosen = [[*whole, assistant("good")], [user("p"), assistant("good")], [user("other"), assistant("good")]]
    rejected = [[*whole, assistant("bad")], [user("p"), assistant("bad")], [user("p"), assistant("bad")]]
    answers = {"chosen": build.lists(chosen), "rejected": build.lists(rejected)}
    implicit = build.run(
        build.context({"source": {"format": "preference", "prompt": None}}), build.batch(**answers)
    )
    assert implicit.certified == [0, 1, 2]
    assert learned(implicit)[:2] == ["good|", "good|"]
    assert len(implicit.rows()[0]["turns"]) == 5
    given = build.lists([[{"content": "no"}], [{"content": "p"}], [{"content": "p"}]])
    explicit = build.run(
        build.context({"source": {"format": "preference"}}), build.batch(prompt=given, **answers)
    )
    assert explicit.certified == [1]
    assert len(explicit.rows()[0]["turns"]) == 2
    assert explicit.reasons(0) == explicit.reasons(2) == {"role_order"}


TREE: dict[str, Any] = {
    "text": "q",
    "role": "prompter",
    "replies": [
        {
            "text": "a1",
            "role": "assistant",
            "rank": 1,
            "replies": [{"text": "q2", "role": "prompter", "replies": [{"text": "a3", "role": "assistant"}]}],
        },
        {"text": "a2", "role": "assistant", "rank": 0},
        {"text": "a4", "role": "assistant"},
    ],
}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [("all", [["q", "a1", "q2", "a3"], ["q", "a2"], ["q", "a4"]]), ("best", [["q", "a2"]])],
)
def test_paths_of_a_tree(paths: str, expected: list[list[str]]) -> None:
    ctx = build.context({"source": {"format": "tree", "paths": paths}}, **KEEP)
    outcome = build.run(ctx, build.batch(tree=[json.dumps(TREE)]))
    assert [[text for _, text in turns] for turns in records(outcome)] == expected
    assert len({row["sample_id"] for row in outcome.rows()}) == len(expected)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ("[1]", "value_type"),
        ("{", "value_type"),
        (json.dumps({"text": "q", "role": "prompter", "replies": {"a": 1}}), "value_type"),
        (json.dumps({"text": "q", "role": "prompter"}), "no_assistant_turn"),
        (json.dumps({**TREE, "text": None}), "content_empty"),
        (json.dumps({**TREE, "role": "narrator"}), "role_unknown"),
    ],
)
def test_a_tree_with_a_fault_is_set_aside_whole(tree: str, reason: str) -> None:
    ctx = build.context({"source": {"format": "tree"}})
    outcome = build.run(ctx, build.batch(tree=[tree, json.dumps(TREE)]))
    assert outcome.reasons(0) == {reason}
    assert set(outcome.certified) == {1}


def test_a_turn_can_be_kept_from_being_learned() -> None:
    ctx = build.context({"source": {"format": "messages"}})
    rows = [
        [user("a"), assistant("b", train=False), user("c"), assistant("d")],
        [user("a"), assistant("b", weight=0.0), user("c"), assistant("d", weight=0.5)],
        [user("a"), assistant("b", train=False)],
    ]
    outcome = build.run(ctx, build.messages(*rows))
    assert learned(outcome) == ["d|", "d|"]
    assert outcome.reasons(2) == {"no_supervised_tokens"}


def test_a_missing_conversation_gives_no_second_reason() -> None:
    outcome = build.run(
        build.context({"source": {"format": "messages"}}), build.messages(None, [user("a"), assistant("b")])
    )
    assert outcome.findings.items == []
    assert outcome.certified == [1]


def test_turn_spans_cover_the_conversation() -> None:
    ctx = build.context({"source": {"format": "messages"}})
    outcome = build.run(
        ctx, build.messages([system("s"), user("\n\na"), assistant("b"), user("c "), assistant("d")])
    )
    row, tokenizer = outcome.rows()[0], outcome.encode.codec.tokenizer
    spans = [(turn["start"], turn["end"]) for turn in row["turns"]]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(row["input_ids"])
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    texts = [tokenizer.decode(row["input_ids"][a:b]) for a, b in spans]
    assert texts[1] == "<|start_header_id|>user<|end_header_id|>\n\n\n\na<|eot_id|>"
