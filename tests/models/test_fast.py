"""The fast engine: equal to the reference, audited, and never needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import TokenizerError
from pipeline.models import fast
from pipeline.models.tokenizer import Tokenizer, load
from pipeline.models.tokenizer_files import read_folder
from pipeline.schema.model import Tokenizer as Spec

pytest.importorskip("fastokens", reason="the extra [fast] is not installed")
TINY = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def files(name: str) -> tuple[Tokenizer, dict[str, object]]:
    read = read_folder(TINY / name, name)
    return Tokenizer(read), read.state


@settings(deadline=None)
@given(st.lists(texts | texts.map(lambda t: t + "<|eot_id|></s>" + t), max_size=6))
def test_ids_are_the_references(batch: list[str]) -> None:
    tokenizer = load(Spec(path="tiny-llama3"), TINY)
    engine = fast.FastEngine(tokenizer._files.state, tokenizer.reference)
    for ours, theirs in zip(engine.encode(batch), tokenizer.reference.encode(batch), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_the_selftest_is_large_and_fixed() -> None:
    assert len(fast.selftest_texts()) >= 450
    assert fast.selftest_texts() == fast.selftest_texts()


def test_a_difference_found_by_the_audit_stops_the_run() -> None:
    tokenizer, state = files("tiny-llama3")

    class Other:
        name = "other"

        def encode(self, texts):  # type: ignore[no-untyped-def]
            ids, lengths = tokenizer.reference.encode(texts)
            return ids + 1, lengths

    engine = fast.FastEngine(state, Other())  # type: ignore[arg-type]
    assert not engine.equals_reference()
    with pytest.raises(TokenizerError, match="differs from the reference"):
        engine.encode(["some text"])


def test_the_audit_sees_one_text_in_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, state = files("tiny-llama3")
    engine = fast.FastEngine(state, tokenizer.reference)
    seen: list[int] = []
    monkeypatch.setattr(engine, "_audit", lambda texts, ids, lengths, first: seen.append(first))
    for size in (700, 700, 700, 1):
        engine.encode(["a"] * size)
    assert seen == [0, 300, 600]


def test_the_engine_is_chosen_by_need_and_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, state = files("tiny-llama3")
    assert fast.choose(state, tokenizer.reference, fast.BREAK_EVEN - 1) is None
    chosen = fast.choose(state, tokenizer.reference, fast.BREAK_EVEN)
    assert chosen is not None
    assert chosen.name == "fastokens"
    monkeypatch.setenv(fast.VARIABLE, "reference")
    assert fast.choose(state, tokenizer.reference, 10**12) is None
    monkeypatch.setenv(fast.VARIABLE, "fast")
    first = fast.choose(state, tokenizer.reference, 1)
    assert first is not None
    assert first.name == "fastokens"


def test_a_tokenizer_the_engine_refuses_stays_with_the_reference() -> None:
    tokenizer, state = files("tiny-llama3")
    refused = {**state, "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}}
    assert fast.choose(refused, tokenizer.reference, 10**12) is tokenizer.reference


def test_a_run_that_changes_engines_gives_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "BREAK_EVEN", 40)
    tokenizer, _ = files("tiny-llama3")
    batches = [["first batch of text"], ["second batch, after which"], ["the other engine serves", "é 日本"]]
    ids = [tokenizer.encode(batch)[0] for batch in batches]
    assert tokenizer.engine == "fastokens"
    for batch, found in zip(batches, ids, strict=True):
        assert np.array_equal(found, tokenizer.reference.encode(batch)[0])
