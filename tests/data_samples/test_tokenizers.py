"""The two small tokenizers mean the same to transformers as to the tokenizers library."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.fixture(scope="module")
def chat(samples: Path):  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    folder = samples / "tokenizers/tiny-llama3"
    return AutoTokenizer.from_pretrained(str(folder)), Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def layout(samples: Path):  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    folder = samples / "tokenizers/tiny-layoutlmv3"
    return AutoTokenizer.from_pretrained(str(folder)), Tokenizer.from_file(str(folder / "tokenizer.json"))


@settings(max_examples=200)
@given(text=texts)
def test_chat_ids_agree_and_every_text_comes_back(chat, text: str) -> None:  # type: ignore[no-untyped-def]
    theirs, plain = chat
    ids = theirs(text)["input_ids"]
    assert ids == plain.encode(text).ids
    assert ids[0] == theirs.bos_token_id
    if "<|" not in text:
        assert plain.decode(ids[1:], skip_special_tokens=False) == text


@settings(max_examples=100)
@given(words=st.lists(texts.filter(str.strip), min_size=1, max_size=8))
def test_layout_ids_agree(layout, words: list[str]) -> None:  # type: ignore[no-untyped-def]
    theirs, plain = layout
    boxes = [[i, i, i + 1, i + 1] for i in range(len(words))]
    assert theirs(words, boxes=boxes)["input_ids"] == plain.encode(words, is_pretokenized=True).ids


def test_layout_ids_have_the_layout_of_roberta(layout) -> None:  # type: ignore[no-untyped-def]
    _, plain = layout
    assert [plain.token_to_id(t) for t in ("<s>", "<pad>", "</s>", "<unk>")] == [0, 1, 2, 3]
    assert plain.token_to_id("<mask>") == plain.get_vocab_size() - 1


def test_the_template_marks_exactly_the_answers(chat) -> None:  # type: ignore[no-untyped-def]
    theirs, plain = chat
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " two  spaces "},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "No."},
    ]
    got = theirs.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    trained = [i for i, mark in zip(got["input_ids"], got["assistant_masks"], strict=True) if mark]
    assert plain.decode(trained, skip_special_tokens=False) == "Yes.<|eot_id|>No.<|eot_id|>"
    assert " two  spaces " in plain.decode(got["input_ids"])


def test_the_template_renders_calls_tools_and_results(chat) -> None:  # type: ignore[no-untyped-def]
    theirs, _ = chat
    call = {"type": "function", "function": {"name": "tide", "arguments": {"port": "Ostby"}}}
    text = theirs.apply_chat_template(
        [
            {"role": "user", "content": "High tide?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "14:05"},
            {"role": "assistant", "content": "At five past two."},
        ],
        tools=[{"type": "function", "function": {"name": "tide", "parameters": {}}}],
        tokenize=False,
    )
    assert all(part in text for part in ('"name": "tide"', '"port": "Ostby"', "14:05", "At five past two."))
