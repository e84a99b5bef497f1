"""Contents: one test for each reason, from raw turns, and one near miss that passes."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.reasons import Policy
from tests.stages.chat import build
from tests.stages.chat.build import assistant, user

MESSAGES = {"source": {"format": "messages"}}
RENDERED = (
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nPing<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nPong<|eot_id|>"
)
LIMITS = {**MESSAGES, "role_limits": {"user": {"min_characters": 3, "max_characters": 6}}}


def exchange(question: Any, answer: Any = "fine") -> list[dict[str, Any]]:
    return [user(question), assistant(answer)]


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (exchange(None), "content_empty"),
        (exchange("ok", ""), "content_empty"),
        (exchange("\u200b\ufeff\n"), "content_empty"),
        ([user("x"), {"role": "assistant"}], "content_empty"),
        (exchange(True), "content_not_text"),
        (exchange({"text": "x"}), "content_not_text"),
        (exchange(["x"]), "content_not_text"),
        (exchange("[{'type': 'text', 'text': 'x'}]"), "content_not_text"),
        (exchange([{"type": "image_url", "image_url": {"url": "x"}}]), "content_unsupported_part"),
        (exchange([{"type": "text", "text": "a"}, {"type": "input_audio"}]), "content_unsupported_part"),
        (exchange("a\x00b"), "text_invalid_unicode"),
        (exchange("a", "b\ufffd"), "text_invalid_unicode"),
        (exchange(RENDERED), "already_rendered"),
        (exchange("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nho"), "already_rendered"),
        (exchange("<s>[INST] hi [/INST] ho</s>"), "already_rendered"),
        (exchange("q", "<think>never closed"), "think_tags_unbalanced"),
        ([{"role": "narrator", "content": "x"}, assistant("y")], "role_unknown"),
        ([{"role": None, "content": "x"}, assistant("y")], "role_unknown"),
    ],
)
def test_what_cannot_be_trained_on_is_set_aside(turns: list[dict[str, Any]], reason: str) -> None:
    outcome = build.run(build.context(MESSAGES), build.messages(turns, exchange("good")))
    assert outcome.reasons(0) == {reason}
    assert outcome.certified == [1]


@pytest.mark.parametrize(
    "turns",
    [
        exchange("nan"),
        exchange("None", "null"),
        exchange("a\u200bb"),
        exchange("[1, 2]"),
        exchange("What does <|im_start|>user mean beside <|im_start|>assistant?"),
        exchange("[INST] alone"),
        exchange("<think> is a tag", "yes"),
        exchange("q", "<think>a</think>b"),
        exchange("naïve café"),
        exchange("😀"),
        [{"role": " HUMAN ", "content": "x"}, {"role": "Gpt", "content": "y"}],
    ],
)
def test_near_misses_pass_unnoticed(turns: list[dict[str, Any]]) -> None:
    outcome = build.run(build.context(MESSAGES), build.messages(turns))
    assert outcome.findings.items == []
    assert outcome.certified == [0]


def test_numbers_are_taken_as_shown() -> None:
    outcome = build.run(build.context(MESSAGES), build.messages(exchange(42, 4.5)))
    assert outcome.reasons(0, Policy.REPAIR) == {"content_as_shown"}
    whole, learned = outcome.texts()
    assert "\n\n42<|eot_id|>" in whole
    assert learned == "4.5<|eot_id|>"
    strict = build.context(MESSAGES, policies={"content_as_shown": "quarantine"})
    assert build.run(strict, build.messages(exchange(42))).reasons(0) == {"content_as_shown"}


def test_text_parts_are_joined_as_they_are() -> None:
    parts = [{"type": "text", "text": "Name a "}, {"type": "text", "value": "metal."}]
    outcome = build.run(build.context(MESSAGES), build.messages(exchange(parts)))
    assert outcome.reasons(0, Policy.REPAIR) == {"content_parts_joined"}
    assert "\n\nName a metal.<|eot_id|>" in outcome.texts()[0]


def test_mojibake_is_flagged_and_set_right_on_demand() -> None:
    turns = exchange("caf\u00c3\u00a9")
    assert build.run(build.context(MESSAGES), build.messages(turns)).reasons(0, Policy.FLAG) == {
        "mojibake_suspected"
    }
    fixing = build.context(MESSAGES, policies={"mojibake_suspected": "repair"})
    outcome = build.run(fixing, build.messages(turns))
    assert outcome.reasons(0, Policy.REPAIR) == {"mojibake_suspected"}
    assert "\n\ncafé<|eot_id|>" in outcome.texts()[0]


def test_invalid_characters_are_replaced_on_demand() -> None:
    ctx = build.context(MESSAGES, policies={"text_invalid_unicode": "repair"})
    outcome = build.run(ctx, build.messages(exchange("a\x00b", "c\ufffdd")))
    assert outcome.reasons(0, Policy.REPAIR) == {"text_invalid_unicode"}
    whole, learned = outcome.texts()
    assert "\n\nab<|eot_id|>" in whole
    assert learned == "c\ufffdd<|eot_id|>"


def test_a_control_token_in_the_text_stays_text() -> None:
    text = "stop <|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nfake"
    outcome = build.run(build.context(MESSAGES), build.messages(exchange(text, "<|begin_of_text|>")))
    assert outcome.reasons(0, Policy.REPAIR) == {"control_token_in_content"}
    row, tokenizer = outcome.rows()[0], outcome.encode.codec.tokenizer
    ids = row["input_ids"]
    assert ids.count(tokenizer.id_of("<|eot_id|>")) == 2
    assert ids.count(tokenizer.bos_id) == 1
    assert f"\n\n{text}<|eot_id|>" in tokenizer.decode(ids)
    strict = build.context(MESSAGES, policies={"control_token_in_content": "quarantine"})
    assert build.run(strict, build.messages(exchange(text))).reasons(0) == {"control_token_in_content"}


def test_lengths_of_roles() -> None:
    ctx = build.context(LIMITS)
    outcome = build.run(
        ctx, build.messages(*(exchange(text, "x" * 99) for text in ("ab", "abc", "abcdef", "abcdefg")))
    )
    assert [outcome.reasons(i) for i in range(4)] == [{"text_too_short"}, set(), set(), {"text_too_long"}]


def test_all_reasons_of_a_record_are_kept_with_their_places() -> None:
    outcome = build.run(build.context(MESSAGES), build.messages([user(None), assistant(True), user("x")]))
    places = {(f.reason.slug, p) for f in outcome.findings.items for p in (f.paths or [""])}
    assert places == {
        ("content_empty", "[0].content"),
        ("content_not_text", "[1].content"),
        ("last_turn_not_assistant", ""),
    }
