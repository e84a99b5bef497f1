"""The order of turns: judged by the grammar, repaired only where the schema says so."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.reasons import Policy
from pipeline.stages.chat.order import compile_grammar
from tests.stages.chat import build
from tests.stages.chat.build import assistant, system, user

MESSAGES = {"source": {"format": "messages"}}
REPAIR = {"role_order": "repair", "last_turn_not_assistant": "repair"}
MAKE = {"s": system, "u": user, "a": assistant}


def chat(letters: str) -> list[dict[str, Any]]:
    return [MAKE[letter](f"{letter}{i}") for i, letter in enumerate(letters)]


@pytest.mark.parametrize(
    ("letters", "reasons"),
    [
        ("ua", set()),
        ("suaua", set()),
        ("uua", {"role_order"}),
        ("uaa", {"role_order"}),
        ("aua", {"role_order"}),
        ("saua", {"role_order"}),
        ("usa", {"role_order"}),
        ("ssua", {"role_order"}),
        ("uau", {"last_turn_not_assistant"}),
        ("uuau", {"last_turn_not_assistant", "role_order"}),
        ("u", {"no_assistant_turn"}),
        ("a", {"no_user_turn"}),
        ("s", {"no_user_turn", "no_assistant_turn"}),
        ("", {"conversation_empty"}),
    ],
)
def test_each_order_has_its_reasons(letters: str, reasons: set[str]) -> None:
    outcome = build.run(build.context(MESSAGES), build.messages(chat(letters)))
    assert outcome.reasons(0) == reasons


@pytest.mark.parametrize(
    ("letters", "notes", "turns"),
    [
        ("uua", {"turns_merged"}, ["u0\n\nu1", "a2"]),
        ("ssuaa", {"turns_merged"}, ["s0\n\ns1", "u2", "a3\n\na4"]),
        ("uau", {"turn_dropped"}, ["u0", "a1"]),
        ("uuauu", {"turns_merged", "turn_dropped"}, ["u0\n\nu1", "a2"]),
        ("ua", set(), ["u0", "a1"]),
    ],
)
def test_repairs_are_made_and_recorded(letters: str, notes: set[str], turns: list[str]) -> None:
    ctx = build.context(MESSAGES, policies=REPAIR, output={"keep_record": True})
    outcome = build.run(ctx, build.messages(chat(letters)))
    assert outcome.reasons(0, Policy.REPAIR) == notes
    assert outcome.reasons(0) == set()
    import json

    record = json.loads(outcome.rows()[0]["record"])
    assert [message["content"] for message in record["messages"]] == turns


@pytest.mark.parametrize("letters", ["aua", "usa", "u", "a"])
def test_what_a_repair_cannot_set_right_is_left_as_it_was(letters: str) -> None:
    outcome = build.run(build.context(MESSAGES, policies=REPAIR), build.messages(chat(letters)))
    assert outcome.reasons(0)
    assert outcome.reasons(0, Policy.REPAIR) == set()


def test_a_constant_system_prompt_comes_before_chats_without_one() -> None:
    ctx = build.context({"source": {"format": "messages", "system": "Be kind."}})
    outcome = build.run(ctx, build.messages(chat("ua"), chat("sua"), []))
    heads = [row["turns"][0]["role"] for row in outcome.rows()]
    assert heads == ["system", "system"]
    assert "Be kind." in outcome.texts(0)[0]
    assert "Be kind." not in outcome.texts(1)[0]
    assert outcome.reasons(2) == {"conversation_empty"}


def oracle(letters: str) -> bool:
    """``system? (user assistant)+`` by hand."""
    rest = letters.removeprefix("s")
    return len(rest) > 0 and len(rest) % 2 == 0 and set(rest[::2]) == {"u"} and set(rest[1::2]) == {"a"}


@given(st.text("suatc", max_size=9))
def test_the_default_grammar_means_what_it_says(letters: str) -> None:
    assert compile_grammar("system? (user assistant)+").matches(letters) == oracle(letters)


def test_a_grammar_with_tools() -> None:
    grammar = compile_grammar("system? (user (assistant_call tool+)* assistant)+")
    assert grammar.matching(["ua", "ucta", "ucttcta", "suaucta"]) == [True] * 4
    assert grammar.matching(["uc", "uta", "uca", "ucaa"]) == [False] * 4
    assert grammar.tools
    assert not compile_grammar("user assistant").tools


@pytest.mark.parametrize(
    "text",
    [
        "",
        "user)",
        "(user",
        "user assistent",
        "+user",
        "user ++",
        "user{2}",
        "user [a]",
        "(|)*",
        "us.*er",
        "user??",
    ],
)
def test_no_regular_expression_gets_through(text: str) -> None:
    with pytest.raises(SchemaError, match="grammar"):
        compile_grammar(text)


@given(
    st.sampled_from(
        [
            "system? (user assistant)+",
            "user assistant",
            "system (user assistant)+",
            "(user|system)+ assistant",
        ]
    )
)
def test_examples_follow_their_grammar_and_say_what_is_required(text: str) -> None:
    grammar = compile_grammar(text)
    assert all(grammar.matching(grammar.examples()))
    short = ["".join(p) for n in range(1, 5) for p in itertools.product("sua", repeat=n)]
    allowed = [s for s, fits in zip(short, grammar.matching(short), strict=True) if fits]
    for role in ("system", "user", "assistant"):
        assert (role in grammar.required()) == all(role[0] in s for s in allowed)


@pytest.mark.parametrize(
    "settings",
    [{"aliases": {"bot": "robot"}}, {"role_limits": {"robot": {"max_characters": 3}}}, {"grammar": "robot"}],
)
def test_names_of_roles_are_checked_before_any_row(settings: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        build.run(build.context({**MESSAGES, **settings}), build.messages(chat("ua")))
