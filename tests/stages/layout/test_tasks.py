"""Tasks beyond a label a word: one label a page, and questions answered by a span of words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.reasons import Policy
from tests.stages.layout.documents import Judged, context, encode, judge, schema


def page(words: list[str], **more: Any) -> dict[str, Any]:
    boxes = [
        [float(i % 90), float(i // 90), float(i % 90) + 5, float(i // 90) + 5] for i in range(len(words))
    ]
    return {"words": words, "boxes": boxes, "page_width": 100, "page_height": 100, **more}


def rows(judged: Judged) -> list[dict[str, Any]]:
    assert judged.samples is not None
    return judged.samples.table.to_pylist()


def classed(form: str = "names") -> Any:
    label = {"column": "class", "names": ["letter", "invoice"], "form": form}
    return schema(labels={}, page_label=label, geometry="off", window={"max_tokens": 32, "stride": 4})


def asked(**window: Any) -> Any:
    question = {"column": "q", "start": "from", "end": "to"}
    return schema(
        labels={}, question=question, geometry="off", window={"max_tokens": 512, "stride": 128, **window}
    )


def test_a_page_label_stands_on_every_window() -> None:
    judged = encode([page(["a"], page_label="letter"), page(["w"] * 80, page_label="invoice")], classed())
    found = rows(judged)
    assert [row["labels"] for row in found if row["row"] == 1] == [0]
    assert {row["labels"] for row in found if row["row"] == 2} == {1}
    assert len(found) > 2


@pytest.mark.parametrize(
    ("form", "label", "reason"),
    [
        ("names", "memo", "label_unknown"),
        ("ids", 2, "label_out_of_range"),
        ("ids", -1, "label_out_of_range"),
        ("ids", -100, "label_out_of_range"),
    ],
)
def test_a_page_label_outside_the_list(form: str, label: Any, reason: str) -> None:
    judged = judge([page(["a"], page_label=label)], classed(form))
    assert judged.slugs(policy=Policy.QUARANTINE) == [reason]
    assert judge([page(["a"], page_label=1 if form == "ids" else "invoice")], classed(form)).slugs() == []


def test_a_question_stands_before_the_page() -> None:
    judged = encode(
        [page(["Total", "42,00"], question="What is due?", answer_start=1, answer_end=1)], asked()
    )
    (row,) = rows(judged)
    tokenizer = context(schema()).tokenizer
    assert tokenizer is not None
    question, _ = tokenizer.encode_words(["What", "is", "due?"])
    words, counts = tokenizer.encode_words(["Total", "42,00"])
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    assert row["input_ids"] == [cls, *question.tolist(), sep, sep, *words.tolist(), sep]
    ahead = len(question) + 3
    assert row["word_ids"] == [-1] * ahead + [0] * counts[0] + [1] * counts[1] + [-1]
    assert row["bbox"][:ahead] == [[0, 0, 0, 0]] * ahead
    assert (row["start_positions"], row["end_positions"]) == (ahead + counts[0], ahead + len(words) - 1)


@pytest.mark.parametrize(("start", "end"), [(1, None), (None, 1), (1, 0), (0, 2), (-1, 0), (2, 2)])
def test_an_answer_that_is_no_span(start: int | None, end: int | None) -> None:
    judged = judge([page(["a", "b"], question="?", answer_start=start, answer_end=end)], asked())
    assert judged.slugs(policy=Policy.QUARANTINE) == ["answer_invalid"]


def test_an_answer_on_a_dropped_word() -> None:
    given_page = page(["a", " ", "b"], question="?", answer_start=1, answer_end=2)
    assert "answer_invalid" in judge([given_page], asked()).slugs(policy=Policy.QUARANTINE)
    given_page |= {"answer_start": 2}
    judged = encode([given_page], asked())
    (row,) = rows(judged)
    assert row["word_ids"][row["start_positions"]] == 2


def test_a_page_without_an_answer_points_to_its_start() -> None:
    (row,) = rows(encode([page(["a"], question="?")], asked()))
    assert (row["start_positions"], row["end_positions"]) == (0, 0)


def test_an_answer_longer_than_a_window_is_flagged() -> None:
    given_page = page(["w"] * 60, question="?", answer_start=0, answer_end=59)
    judged = encode([given_page], asked(max_tokens=24, stride=4))
    assert "answer_outside_window" in judged.slugs(policy=Policy.FLAG)
    assert {row["start_positions"] for row in rows(judged)} == {0}


def test_a_question_that_leaves_no_room() -> None:
    pages = [page(["a"], question="why " * 40), page(["a"], question="why")]
    judged = encode(pages, asked(max_tokens=24, stride=4))
    assert judged.slugs(0, Policy.QUARANTINE) == ["too_long_for_target"]
    assert [row["row"] for row in rows(judged)] == [2]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.data(), st.integers(16, 60))
def test_an_answer_is_found_again_in_every_window_that_holds_it(
    count: int, data: st.DataObject, longest: int
) -> None:
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, min(count - 1, first + 5)))
    words = [f"w{i}x" for i in range(count)]
    judged = encode(
        [page(words, question="where is it", answer_start=first, answer_end=last)],
        asked(max_tokens=longest, stride=data.draw(st.integers(0, longest - 14))),
    )
    if not judged.good():
        return
    seen = False
    for row in rows(judged):
        start, end = row["start_positions"], row["end_positions"]
        places = np.array(row["word_ids"])
        tokenizer = context(schema()).tokenizer
        assert tokenizer is not None
        whole = [
            len(tokenizer.encode_words([words[w]])[0]) == (places == w).sum() for w in range(first, last + 1)
        ]
        assert (start > 0) == all(whole)
        if start:
            seen = True
            assert places[start] == first
            assert places[end] == last
            assert places[start - 1] != first
            assert places[end + 1] != last
    assert seen != ("answer_outside_window" in judged.slugs())


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "name"), [("layoutlmv3", "layoutlmv3-base"), ("layoutlmv2", "bert-base-uncased")]
)
def test_questions_as_transformers_encodes_them(kind: str, name: str, shared: Path) -> None:
    from tests.stages.layout.test_golden import reference

    folder = shared / "tokenizers" / name
    of = schema(
        labels={},
        question={"column": "q"},
        geometry="off",
        tokenizer=str(folder),
        model={"family": kind},
        window={"max_tokens": 64, "stride": 16},
        unit="norm1000",
        page={},
    )
    words = [f"Posten {i}" if i % 7 == 0 else f"{i},50" for i in range(90)]
    boxes = [[i * 10, 20, i * 10 + 9, 40] for i in range(90)]
    question = "Wie hoch ist der Gesamtbetrag, netto?"
    judged = encode([{"words": words, "boxes": boxes, "question": question}], of)
    expected = reference(kind, folder)(
        question,
        words,
        boxes=boxes,
        truncation="only_second",
        max_length=64,
        stride=16,
        return_overflowing_tokens=True,
    )
    assert [row["input_ids"] for row in rows(judged)] == expected["input_ids"]
    assert [row["bbox"] for row in rows(judged)] == expected["bbox"]
