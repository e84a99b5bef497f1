"""Any list of turns is certified with the mask of an independent oracle, or set aside for reasons that are true."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.reasons import Policy
from tests.stages.chat import build

CONTEXT = build.context({"source": {"format": "messages"}})
LIBRARY = tokenizers.Tokenizer.from_file(str(build.TINY / "tiny-llama3" / "tokenizer.json"))
LIBRARY.encode_special_tokens = True
SPECIAL = {
    name: LIBRARY.token_to_id(f"<|{name}|>")
    for name in ("begin_of_text", "start_header_id", "end_header_id", "eot_id")
}
ALIASES = {"human": "user", "gpt": "assistant"}

words = st.text(
    st.sampled_from("ab Z9.\n\té日😀'\u200b<|>")
    | st.characters(exclude_categories=["Cs"], max_codepoint=0x2FF),
    max_size=14,
) | st.sampled_from(
    ["<|eot_id|>", "x <|start_header_id|>user", "\n\nlead", "None", "nan", "user", "<think>a</think>b"]
)
contents: st.SearchStrategy[Any] = st.one_of(
    words,
    words,
    words,
    words,
    st.none(),
    st.integers(-5, 5),
    st.booleans(),
    st.just(""),
    st.just(" \u200b"),
    st.just("bad \ufffd"),
    st.lists(st.builds(lambda t: {"type": "text", "text": t}, words), min_size=1, max_size=2),
    st.just([{"type": "image_url"}]),
    st.just({"a": 1}),
)
roles = st.sampled_from(
    ["user", "assistant", "user", "assistant", "system", "Human ", "GPT", "tool", "narrator", None]
)
turns = st.builds(lambda role, content: {"role": role, "content": content}, roles, contents)
orderly = st.lists(words, min_size=2, max_size=6).map(
    lambda texts: [
        {"role": ("user", "assistant")[i % 2], "content": text}
        for i, text in enumerate(texts[: len(texts) // 2 * 2])
    ]
)
conversations = orderly | orderly | st.lists(turns, max_size=5)


def canonical(role: Any) -> str | None:
    if not isinstance(role, str):
        return None
    name = role.strip().casefold()
    name = ALIASES.get(name, name)
    return name if name in ("system", "user", "assistant", "tool") else None


def text_of(content: Any) -> str | None:
    """The text a content stands for, None where it stands for none."""
    if isinstance(content, bool) or content is None or isinstance(content, dict):
        return None
    if isinstance(content, list):
        return "".join(p["text"] for p in content) if all(p["type"] == "text" for p in content) else None
    return str(content)


def blank(text: str) -> bool:
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def follows(names: list[str]) -> bool:
    """``system? (user assistant)+`` by hand."""
    rest = names[1:] if names[:1] == ["system"] else names
    return (
        bool(rest)
        and len(rest) % 2 == 0
        and all(n == ("user", "assistant")[i % 2] for i, n in enumerate(rest))
    )


def true_reasons(conversation: list[dict[str, Any]]) -> set[str]:
    """Everything that is wrong with a conversation."""
    found: set[str] = set()
    if not conversation:
        return {"conversation_empty"}
    names = [canonical(turn["role"]) for turn in conversation]
    for name, turn in zip(names, conversation, strict=True):
        content = turn["content"]
        text = text_of(content)
        if name is None:
            found.add("role_unknown")
        if content is None or (isinstance(text, str) and blank(text)):
            found.add("content_empty")
        if isinstance(content, bool | dict):
            found.add("content_not_text")
        if isinstance(content, list) and text is None:
            found.add("content_unsupported_part")
        if text is not None and ("\x00" in text or "\ufffd" in text):
            found.add("text_invalid_unicode")
        if text is not None and name == "assistant" and text.count("<think>") != text.count("</think>"):
            found.add("think_tags_unbalanced")
    if "tool" in names:
        found.add("tool_call_invalid")  # no turn of these conversations calls a tool
    known = [name for name in names if name is not None]
    if len(known) == len(names) and not follows(known):
        if "user" not in known:
            found.add("no_user_turn")
        if "assistant" not in known:
            found.add("no_assistant_turn")
        if known[-1] != "assistant":
            found.add("last_turn_not_assistant")
        found.add("role_order")
    return found


def oracle(conversation: list[dict[str, Any]]) -> tuple[list[int], list[int]]:
    """Ids and labels, put together by hand with the library alone."""
    ids, labels = [SPECIAL["begin_of_text"]], [-100]
    for turn in conversation:
        role, text = canonical(turn["role"]), text_of(turn["content"])
        assert role is not None
        assert text is not None
        header = [
            SPECIAL["start_header_id"],
            *LIBRARY.encode(role, add_special_tokens=False).ids,
            SPECIAL["end_header_id"],
        ]
        body = LIBRARY.encode("\n\n" + text, add_special_tokens=False)
        learned = [role == "assistant" and end > 2 for _, end in body.offsets]
        ids += [*header, *body.ids, SPECIAL["eot_id"]]
        labels += [-100] * len(header)
        labels += [token if keep else -100 for token, keep in zip(body.ids, learned, strict=True)]
        labels.append(SPECIAL["eot_id"] if role == "assistant" else -100)
    return ids, labels


@settings(max_examples=150, deadline=None)
@given(st.lists(conversations, min_size=1, max_size=6))
def test_certified_as_the_oracle_says_or_set_aside_for_true_reasons(rows: list[list[dict[str, Any]]]) -> None:
    outcome = build.run(CONTEXT, build.messages(*rows))
    certified = dict(zip(outcome.certified, outcome.rows(), strict=True))
    for i, conversation in enumerate(rows):
        true = true_reasons(conversation)
        found = outcome.reasons(i)
        assert found <= true
        assert bool(found) == bool(true) == (i not in certified)
        if not true:
            ids, labels = oracle(conversation)
            assert certified[i]["input_ids"] == ids
            assert certified[i]["labels"] == labels


@settings(max_examples=60, deadline=None)
@given(st.lists(orderly, min_size=1, max_size=4))
def test_content_never_changes_without_a_record_of_it(rows: list[list[dict[str, Any]]]) -> None:
    outcome = build.run(CONTEXT, build.messages(*rows))
    for record, sample in zip(outcome.certified, outcome.rows(), strict=True):
        tokenizer = outcome.encode.codec.tokenizer
        whole = tokenizer.decode(sample["input_ids"])
        if not outcome.reasons(record, Policy.REPAIR) - {"control_token_in_content"}:
            assert all(turn["content"] in whole for turn in rows[record])


@settings(max_examples=60, deadline=None)
@given(st.lists(conversations, min_size=2, max_size=5), st.data())
def test_a_conversation_does_not_depend_on_its_neighbours(
    rows: list[list[dict[str, Any]]], data: st.DataObject
) -> None:
    i = data.draw(st.integers(0, len(rows) - 1))
    together, alone = build.run(CONTEXT, build.messages(*rows)), build.run(CONTEXT, build.messages(rows[i]))
    assert together.reasons(i) == alone.reasons(0)
    if i in together.certified:
        there = together.rows()[together.certified.index(i)]
        assert there["labels"] == alone.rows()[0]["labels"]
        assert there["turns"] == alone.rows()[0]["turns"]


@pytest.mark.parametrize("train_on", ["assistant", "last_assistant", "all"])
def test_what_is_trained_is_what_the_schema_says(train_on: str) -> None:
    ctx = build.context({"source": {"format": "messages"}, "train_on": train_on})
    rows = [[build.user("q"), build.assistant("one"), build.user("r"), build.assistant("two")]]
    whole, learned = build.run(ctx, build.messages(*rows)).texts()
    expected = {"assistant": "one<|eot_id|>two<|eot_id|>", "last_assistant": "two<|eot_id|>"}
    assert learned == expected.get(train_on, whole)
