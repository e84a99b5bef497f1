"""Doubly encoded text is found and set right; honest text is left alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.values.text_checks import DOUBLE_ENCODED, repair_mojibake

HONEST = (
    "café naïve façade Größe Straße Ärzte „Zitat“ ‚so‘ Ü“ ÉTÉ— Ã É À Â » 20 °C 5 €",
    "ÃO SÃO JOÃO MAÇÃ",
    "Ελληνικά русский 日本語 العربية हिन्दी",
    "plain ascii text",
)


def damaged(text: str, wrong: str) -> str:
    return text.encode("utf-8").decode(wrong)


@pytest.mark.parametrize("text", HONEST)
def test_honest_text_is_left_alone(text: str) -> None:
    assert repair_mojibake(text) is None


@pytest.mark.parametrize("wrong", ["latin-1", "cp1252"])
@pytest.mark.parametrize(
    "text", ["café", "Größe", "don’t — “quoted”", "price 5 €", "naïve Ünlü", "emoji 😀 ok"]
)
def test_damage_is_set_right(text: str, wrong: str) -> None:
    try:
        seen = damaged(text, wrong)
    except UnicodeDecodeError:
        seen = text.encode("utf-8").decode("latin-1")
    found = repair_mojibake(seen)
    assert found is not None
    assert found[0] == text


@given(
    st.text(st.characters(min_codepoint=0xC0, max_codepoint=0xFF) | st.sampled_from("abc xyz"), max_size=20)
)
def test_whatever_latin_text_was_damaged_comes_back(text: str) -> None:
    seen = damaged(text, "latin-1")
    found = repair_mojibake(seen)
    assert (found[0] if found else seen) == text


@given(st.text(max_size=30))
def test_only_candidates_are_damaged(text: str) -> None:
    if repair_mojibake(text) is not None:
        assert re.search(DOUBLE_ENCODED, text)
