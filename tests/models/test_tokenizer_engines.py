"""The fast engine: equal to the reference, audited, and never needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import TokenizerError
from pipeline.models import tokenizer_engines
from pipeline.models.tokenizer import Tokenizer
from pipeline.models.tokenizer_files import read_folder

pytest.importorskip("fastokens", reason="the extra [fast] is not installed")
TINY = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def files(name: str) -> tuple[Tokenizer, dict[str, object]]:
    read = read_folder(TINY / name, name)
    return Tokenizer(read), read.state


def test_an_expected_amount_settles_the_engine_at_once() -> None:
    tokenizer, state = files("tiny-llama3")
    tokenizer.encode(["a few characters"])
    assert tokenizer.engine == "tokenizers"
    tokenizer.expect(tokenizer_engines.break_even(state))
    tokenizer.encode(["more"])
    assert tokenizer.engine == "fastokens"
    tokenizer.expect(1)
    assert tokenizer.engine == "fastokens"


@cache
def _engine() -> tuple[Tokenizer, tokenizer_engines.FastEngine]:
    tokenizer, state = files("tiny-llama3")
    return tokenizer, tokenizer_engines.FastEngine(state, tokenizer.reference)


@settings(deadline=None)
@given(st.lists(texts | texts.map(lambda t: t + "<|eot_id|></s>" + t), max_size=6))
def test_ids_are_the_references(batch: list[str]) -> None:
    tokenizer, engine = _engine()
    for ours, theirs in zip(engine.encode(batch), tokenizer.reference.encode(batch), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_the_selftest_is_large_and_fixed() -> None:
    assert len(tokenizer_engines.selftest_texts()) >= 450
    assert tokenizer_engines.selftest_texts() == tokenizer_engines.selftest_texts()


def test_a_difference_found_by_the_audit_stops_the_run() -> None:
    tokenizer, state = files("tiny-llama3")

    class Other:
        name = "other"

        def encode(self, texts):  # type: ignore[no-untyped-def]
            ids, lengths = tokenizer.reference.encode(texts)
            return ids + 1, lengths

    engine = tokenizer_engines.FastEngine(state, Other())  # type: ignore[arg-type]
    assert not engine.equals_reference()
    with pytest.raises(TokenizerError, match="differs from the reference"):
        engine.encode(["some text"])


def test_the_audit_sees_one_text_in_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, state = files("tiny-llama3")
    engine = tokenizer_engines.FastEngine(state, tokenizer.reference)
    seen: list[int] = []
    monkeypatch.setattr(engine, "_audit", lambda texts, ids, lengths, first: seen.append(first))
    for size in (700, 700, 700, 1):
        engine.encode(["a"] * size)
    assert seen == [0, 300, 600]


def test_the_engine_is_chosen_by_need_and_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, state = files("tiny-llama3")
    enough = tokenizer_engines.break_even(state)
    assert enough == tokenizer_engines.BREAK_EVEN * (tokenizer.size - len(tokenizer.added))
    assert tokenizer_engines.choose(state, tokenizer.reference, enough - 1) is None
    chosen = tokenizer_engines.choose(state, tokenizer.reference, enough)
    assert chosen is not None
    assert chosen.name == "fastokens"
    monkeypatch.setenv(tokenizer_engines.VARIABLE, "reference")
    assert tokenizer_engines.choose(state, tokenizer.reference, 10**12) is None
    monkeypatch.setenv(tokenizer_engines.VARIABLE, "fast")
    first = tokenizer_engines.choose(state, tokenizer.reference, 1)
    assert first is not None
    assert first.name == "fastokens"


def test_a_tokenizer_the_engine_refuses_stays_with_the_reference() -> None:
    tokenizer, state = files("tiny-llama3")
    refused = {**state, "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}}
    assert tokenizer_engines.choose(refused, tokenizer.reference, 10**12) is tokenizer.reference


def test_a_run_that_changes_engines_gives_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, _ = files("tiny-llama3")
    monkeypatch.setattr(tokenizer_engines, "break_even", lambda state: 40)
    batches = [["first batch of text"], ["second batch, after which"], ["the other engine serves", "é 日本"]]
    ids = [tokenizer.encode(batch)[0] for batch in batches]
    assert tokenizer.engine == "fastokens"
    for batch, found in zip(batches, ids, strict=True):
        assert np.array_equal(found, tokenizer.reference.encode(batch)[0])
