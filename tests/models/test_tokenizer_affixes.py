"""Special tokens around a plain text: those that the whole tokenizer would add."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers

from pipeline.models.tokenizer import affixes

TINY = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers"


def check(path: Path) -> None:
    before, after = affixes(json.loads(path.read_text("utf-8")))
    whole = tokenizers.Tokenizer.from_file(str(path))
    bare = whole.encode("some text", add_special_tokens=False).ids
    assert [*before.tolist(), *bare, *after.tolist()] == whole.encode("some text").ids


@pytest.mark.parametrize("name", ["tiny-llama3", "tiny-layoutlmv3"])
def test_they_are_what_the_tokenizer_adds(name: str) -> None:
    check(TINY / name / "tokenizer.json")


@pytest.mark.shared
@pytest.mark.parametrize("name", ["llama3", "qwen2_5", "mistral_v3", "layoutlmv3-base", "bert-base-uncased"])
def test_they_are_what_real_tokenizers_add(shared: Path, name: str) -> None:
    check(shared / "tokenizers" / name / "tokenizer.json")


def test_without_a_post_processor_there_are_none() -> None:
    before, after = affixes({"post_processor": None})
    assert len(before) == len(after) == 0
