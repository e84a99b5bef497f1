"""The memory of words changes no id."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.stages.layout.tokenize import WordIds
from tests.stages.layout.documents import context, schema

_words = st.lists(
    st.one_of(st.sampled_from(["a", "Beleg", "2024", "é"]), st.text(min_size=1, max_size=8)), max_size=30
)


@settings(max_examples=100, deadline=None)
@given(st.lists(_words, min_size=1, max_size=5), st.sampled_from([0, 5, 10**6]))
def test_remembered_or_not_the_ids_are_the_tokenizers(batches: list[list[str]], room: int) -> None:
    tokenizer = context(schema()).tokenizer
    assert tokenizer is not None
    memory = WordIds(tokenizer, most_words=room, most_tokens=room)
    for words in batches:
        words = [w for w in words if "\x00" not in w]
        ids, lengths = memory.encode(pl.Series(words, dtype=pl.String))
        expected_ids, expected_lengths = tokenizer.encode_words(words)
        assert ids.tolist() == expected_ids.tolist()
        assert lengths.tolist() == expected_lengths.tolist()


def test_the_memory_is_bounded() -> None:
    tokenizer = context(schema()).tokenizer
    assert tokenizer is not None
    memory = WordIds(tokenizer, most_words=100, most_tokens=1000)
    for start in range(0, 5000, 50):
        memory.encode(pl.Series([f"wort{i}" for i in range(start, start + 50)]))
        assert len(memory._slots) <= 150
