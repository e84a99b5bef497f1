"""The comparison sees what is right and, above all, what is wrong: each word of ``value`` both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.case import Case, is_verdict
from tests.acceptance.compare import compare
from tests.acceptance.execute import Run
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Outcome
from tests.acceptance.readback import Reader

TOKENIZERS = Path(__file__).resolve().parents[2] / "data_samples/tokenizers"
LAYOUT, CHAT = Reader(TOKENIZERS / "tiny-layoutlmv3"), Reader(TOKENIZERS / "tiny-llama3")
NAMES = ["O", "B-KEY", "I-KEY"]


def _place(row: int, name: str) -> dict[str, Any]:
    return {"source": "input.jsonl", "sheet": None, "row": row, "id": name, "notes": []}


def _page(row: int, name: str, words: list[str], boxes: list[list[int]], labels: list[int]) -> dict[str, Any]:
    ids, word_ids, bbox, token_labels = [0], [-1], [[0, 0, 0, 0]], [-100]
    for index, word in enumerate(words):
        for position, token in enumerate(LAYOUT.engine.encode([word], is_pretokenized=True).ids[1:-1]):
            ids.append(token)
            word_ids.append(index)
            bbox.append(boxes[index])
            token_labels.append(labels[index] if position == 0 else -100)
    return {
        **_place(row, name), "input_ids": [*ids, 2], "attention_mask": [1] * (len(ids) + 1), "bbox": [*bbox, [0] * 4],
        "word_ids": [*word_ids, -1], "labels": [*token_labels, -100], "window": 0, "windows": 1,
    }  # fmt: skip


def _chat(row: int, name: str, *turns: tuple[str, str]) -> dict[str, Any]:
    token = CHAT.engine.token_to_id
    ids, labels = [token("<|begin_of_text|>")], [-100]
    for role, content in turns:
        head = [token("<|start_header_id|>"), *_plain(role), token("<|end_header_id|>"), *_plain("\n\n")]
        body = [*_plain(content), token("<|eot_id|>")]
        ids += head + body
        labels += [-100] * len(head) + (body if role == "assistant" else [-100] * len(body))
    return {**_place(row, name), "input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}


def _plain(text: str) -> list[int]:
    ids: list[int] = CHAT.engine.encode(text, add_special_tokens=False).ids
    return ids


def _refused(row: int, name: str, reason: str, found: str = "") -> dict[str, Any]:
    reasons = [{"reason": reason, "column": "", "path": "", "found": found, "expected": ""}]
    return {
        "source": "input.jsonl", "sheet": None, "row": row, "reasons": reasons, "cells": None,
        "raw": f'{{"id": "{name}"}}'.encode(),
    }  # fmt: skip


def _judge(
    tmp_path: Path,
    kind: str,
    samples: list[dict[str, Any]],
    refused: list[dict[str, Any]],
    expect: str,
    value: Any,
    *,
    code: int = 0,
    err: str = "",
) -> list[str]:
    case = Case(tmp_path, "t-1", expect, value, {"modality": kind}, ("input.jsonl",))
    schema: dict[str, Any] = {
        "layout": {
            "kind": "layout",
            "layout": {"labels": {"names": NAMES}},
            "model": {"family": "layoutlmv3"},
        },
        "chat": {"kind": "chat", "chat": {"max_tokens": 100}},
        "table": {
            "kind": "table",
            "columns": {"id": {}, "text": {}, "code": {}, "group": {}, "labels": {"allowed": ["pos", "neg"]}},
        },
    }[kind]
    reader = {"layout": LAYOUT, "chat": CHAT, "table": None}[kind]
    outcome = Outcome(tmp_path / "clean", samples=samples, quarantine=refused)
    return compare(
        Context(
            case,
            schema,
            Run(code, "done", err or "error: no" * bool(code), tmp_path / "clean"),
            outcome,
            "id",
            reader,
        )
    ).mistakes


ONE = [_page(1, "a", ["Total", "9.90"], [[1, 2, 3, 4], [5, 6, 7, 8]], [1, 0])]
TALK = [_chat(1, "c", ("user", "Name a lake."), ("assistant", "Plön."))]
ASKED = {"role": "user", "content": "Name a lake."}
ROWS = [{**_place(1, "r"), "text": "NA", "code": "007", "group": None}]


@pytest.mark.parametrize(
    ("kind", "samples", "right", "wrong"),
    [
        ("layout", ONE, {"words": ["Total", "9.90"]}, {"words": ["Total", "9.9"]}),
        ("layout", ONE, {"bboxes": [[1, 2, 3, 4], [5, 6, 7, 8]]}, {"bboxes": [[1, 2, 3, 4], [5, 6, 7, 9]]}),
        ("layout", ONE, {"bboxes": {"a": [[1, 2, 3, 4], [5, 6, 7, 8]]}}, {"bboxes": {"a": [[1, 2, 3, 4]]}}),
        ("layout", ONE, {"a": {"words": ["Total", "9.90"]}}, {"a": {"words": ["9.90", "Total"]}}),
        ("layout", ONE, {"labels": {"a": [1, 0]}}, {"labels": {"a": [0, 1]}}),
        ("layout", ONE, {"labels": {"a": ["B-KEY", "O"]}}, {"labels": {"a": ["I-KEY", "O"]}}),
        ("layout", ONE, {"clipped": {"1": [5, 6, 7, 8]}}, {"clipped": {"1": [0, 6, 7, 8]}}),
        ("layout", ONE, {"docs": {"a": {"words": ["Total", "9.90"]}}}, {"docs": {"b": {"words": ["Total", "9.90"]}}}),
        (
            "layout", ONE, {"tolerance": 1, "exact": [[1.4, 2.9, 3, 4], [5, 6, 7, 8]]},
            {"tolerance": 1, "exact": [[2.5, 2.9, 3, 4], [5, 6, 7, 8]]},
        ),
        (
            "layout", ONE, {"must_not_equal": {"bboxes": [[0, 0, 0, 0]]}},
            {"must_not_equal": {"bboxes": [[1, 2, 3, 4], [5, 6, 7, 8]]}},
        ),
        ("layout", ONE, {"must_not_contain": "tail"}, {"must_not_contain": "otal"}),
        ("layout", ONE, {"must_not_contain": {"a": ["tail", "head"]}}, {"must_not_contain": {"a": ["tail", "Total"]}}),
        ("layout", ONE, {"must_not_be": {"a": [[0, 0, 1, 1]]}}, {"must_not_be": {"a": [5, 6, 7, 8]}}),
        ("chat", TALK, {"messages": {"c": "Name a lake."}}, {"messages": {"c": "Name a lak"}}),
        (
            "chat", TALK,
            {"messages": {"c": [ASKED, {"role": "assistant", "content": "Plön."}]}},
            {"messages": {"c": [ASKED, {"role": "user", "content": "Plön."}]}},
        ),
        ("chat", TALK, {"must_not_contain": "None"}, {"must_not_contain": "lake"}),
        ("table", ROWS, {"texts": {"r": "NA"}}, {"texts": {"r": None}}),
        ("table", ROWS, {"codes": {"r": "007"}}, {"codes": {"r": 7}}),
        ("table", ROWS, {"groups": {"r": None}}, {"groups": {"r": "north"}}),
        ("table", ROWS, {"records": [{"id": "r", "text": "NA"}]}, {"records": [{"id": "r", "text": ""}]}),
        ("table", ROWS, {"ids": ["r"]}, {"ids": ["r", "s"]}),
        ("table", ROWS, {"must_not_equal": {"r": "7"}}, {"must_not_equal": {"r": "007"}}),
        ("table", ROWS, {"total": 1, "certified": 1}, {"total": 2}),
        ("table", ROWS, {"certified_ids": ["r"]}, {"certified_ids": ["q"]}),
    ],
)  # fmt: skip
def test_a_value_is_compared(
    tmp_path: Path, kind: str, samples: list[dict[str, Any]], right: Any, wrong: Any
) -> None:
    assert _judge(tmp_path, kind, samples, [], "accept", right) == []
    assert _judge(tmp_path, kind, samples, [], "accept", wrong) != []


BAD = [_refused(2, "q", "row_ragged", "4 fields")]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"rows": {"r": "accept", "q": "quarantine"}}, {"rows": {"r": "quarantine", "q": "quarantine"}}),
        ({"rows": {"q": "repair_or_quarantine"}}, {"rows": {"q": "repair"}}),
        ({"rows": {"r": "accept_or_error"}}, {"rows": {"absent": "accept"}}),
        ({"quarantined_lines": [2]}, {"quarantined_lines": [3]}),
        ({"lines": {"q": 2}}, {"lines": {"q": 1}}),
        ({"fields": {"q": 4}}, {"fields": {"q": 3}}),
        ({"quarantined_min": 1, "total": 2}, {"quarantined_min": 2}),
        ({"quarantined": 1}, {"quarantined": 0}),
        ({"quarantined": ["q"]}, {"quarantined": ["r"]}),
        ({"invariants": ["certified + quarantined == 2"]}, {"invariants": ["certified + quarantined == 3"]}),
    ],
)
def test_verdicts_and_counts(tmp_path: Path, right: Any, wrong: Any) -> None:
    assert _judge(tmp_path, "table", ROWS, BAD, "mixed", right) == []
    assert _judge(tmp_path, "table", ROWS, BAD, "mixed", wrong) != []


@pytest.mark.parametrize(
    ("expect", "fits", "does_not"),
    [
        ("accept", (ROWS, [], 0), (ROWS, BAD, 0)),
        ("repair", (ROWS, [], 0), ([], BAD, 3)),
        ("quarantine", ([], BAD, 3), (ROWS, [], 0)),
        ("repair_or_quarantine", ([], BAD, 3), ([], [], 0)),
        ("error", ([], [], 4), (ROWS, [], 0)),
        ("accept_or_error", ([], [], 4), ([], BAD, 0)),
    ],
)
def test_a_verdict_without_ids_is_meant_of_all(tmp_path: Path, expect: str, fits: Any, does_not: Any) -> None:
    samples, refused, code = fits
    assert _judge(tmp_path, "table", samples, refused, expect, None, code=code) == []
    samples, refused, code = does_not
    assert _judge(tmp_path, "table", samples, refused, expect, None, code=code) != []


def test_the_second_of_two_equal_ids(tmp_path: Path) -> None:
    twice = [*ROWS, {**ROWS[0], **_place(3, "r")}]
    assert _judge(tmp_path, "table", twice, [], "mixed", {"rows": {"r#1": "accept", "r#2": "accept"}}) == []
    assert _judge(tmp_path, "table", ROWS, [], "mixed", {"rows": {"r#2": "accept"}}) != []


def test_the_label_of_a_table_by_name_or_by_id(tmp_path: Path) -> None:
    labelled = [{**ROWS[0], "group": "neg", "labels": 1}]
    for fits, does_not in ((1, 0), ("neg", "pos")):
        value = {"labels" if isinstance(fits, int) else "groups": {"r": fits}}
        other = {next(iter(value)): {"r": does_not}}
        assert _judge(tmp_path, "table", labelled, [], "accept", value) == []
        assert _judge(tmp_path, "table", labelled, [], "accept", other) != []


@pytest.mark.parametrize("value", ["labels", "records"])
def test_a_label_column_called_labels_by_name(tmp_path: Path, value: str) -> None:
    labelled = [{**ROWS[0], "labels": 1}]
    for name, fits in (("neg", True), ("pos", False)):
        wanted = {"labels": {"r": name}} if value == "labels" else {"records": [{"id": "r", "labels": name}]}
        assert (_judge(tmp_path, "table", labelled, [], "accept", wanted) == []) is fits


def test_an_id_is_looked_for_in_the_text_of_the_file_whatever_its_encoding(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "input.jsonl").write_text('{"id": "r"}\n', encoding=encoding)
        assert _judge(tmp_path, "table", ROWS, [], "accept", None) == []


@pytest.mark.parametrize(("line", "found"), [(r'{"id": "\uD800x"}', True), ('{"id": "other"}', False)])
def test_an_id_may_be_spelled_in_escapes(tmp_path: Path, line: str, found: bool) -> None:
    (tmp_path / "input.jsonl").write_text(line + "\n")
    refused = {**_refused(1, "", "text_invalid_unicode"), "raw": rb'{"id": "\ud800x"}'}
    assert (_judge(tmp_path, "table", [], [refused], "quarantine", None, code=3) == []) is found


@pytest.mark.parametrize(("expect", "fits"), [("error_or_accept", True), ("error", True), ("accept", False)])
def test_nothing_to_read_is_an_error_and_no_refusal_of_records(
    tmp_path: Path, expect: str, fits: bool
) -> None:
    assert (_judge(tmp_path, "table", [], [], expect, None, code=3) == []) is fits
    refused = [_refused(1, "r", "text_blank")]
    assert _judge(tmp_path, "table", [], refused, "error_or_accept", None, code=3) != []


def test_a_traceback_is_a_failure_whatever_else_holds(tmp_path: Path) -> None:
    err = "Traceback (most recent call last):\n  boom\nerror: no"
    assert _judge(tmp_path, "table", [], [], "error", None, code=1, err=err) != []


def test_an_unknown_word_is_said_to_be_unchecked_and_the_verdict_counts(tmp_path: Path) -> None:
    case = Case(tmp_path, "t-1", "accept", {"moon": 3}, {"modality": "table"}, ("input.jsonl",))
    schema: dict[str, Any] = {"kind": "table", "columns": {"id": {}}}
    for samples, mistakes in ((ROWS, False), ([], True)):
        outcome = Outcome(tmp_path, samples=samples)
        report = compare(Context(case, schema, Run(0, "", "", tmp_path), outcome, "id", None))
        assert report.unchecked == ["moon"]
        assert bool(report.mistakes) == mistakes


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s["bbox"].__setitem__(2, [9, 9, 9, 9]),  # a token of a word with another box than its first
        lambda s: s["bbox"].__setitem__(1, [1, 2, 3, 1001]),
        lambda s: s["bbox"].__setitem__(1, [3, 2, 1, 4]),
        lambda s: s["labels"].__setitem__(1, 3),
        lambda s: s.update(labels=[-100] * len(s["labels"])),
        lambda s: s["input_ids"].__setitem__(1, 99_999),
        lambda s: s["attention_mask"].pop(),
        lambda s: s.update(attention_mask=[0] * len(s["attention_mask"])),
    ],
)
def test_a_sample_that_would_not_train_is_seen(tmp_path: Path, spoil: Any) -> None:
    page = _page(1, "a", ["Total due", "9.90"], [[1, 2, 3, 4], [5, 6, 7, 8]], [1, 0])
    assert _judge(tmp_path, "layout", [page], [], "accept", None) == []
    spoil(page)
    assert _judge(tmp_path, "layout", [page], [], "accept", None) != []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s.update(labels=[-100] * len(s["labels"])),
        lambda s: s["labels"].__setitem__(-1, -100),  # the end of turn is not learned
        lambda s: s.update(labels=list(s["input_ids"])),  # all is learned
        lambda s: [
            s[k].insert(0, v) for k, v in (("input_ids", 1400), ("labels", -100), ("attention_mask", 1))
        ],
    ],
)
def test_a_chat_that_would_train_the_wrong_thing_is_seen(tmp_path: Path, spoil: Any) -> None:
    chat = _chat(1, "c", ("user", "Hi"), ("assistant", "Hello"))
    assert _judge(tmp_path, "chat", [chat], [], "accept", None) == []
    spoil(chat)
    assert _judge(tmp_path, "chat", [chat], [], "accept", None) != []


def test_verdicts_are_told_from_other_texts() -> None:
    assert is_verdict("accept_or_quarantine")
    assert not is_verdict("cut here")
