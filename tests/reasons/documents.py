"""Findings about documents: words, boxes, labels, answers and token types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.reasons import Reason
from tests.reasons.case import LAYOUTLMV3, Case, lines

WORDS = ["one", "two"]
BOXES = [[10, 10, 60, 30], [70, 10, 120, 30]]
NAMES = ["O", "B-KEY", "I-KEY"]
NAMED = {"labels": {"column": "labels", "names": NAMES}}
IDS = {"labels": {"column": "labels", "names": NAMES, "form": "ids"}}


def page(**more: Any) -> dict[str, Any]:
    """A page of two words."""
    return {"words": WORDS, "boxes": BOXES, "width": 1000, "height": 1000, **more}


def layout(section: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A schema of pages with pixel boxes for LayoutLMv3."""
    base = {
        "words": "words",
        "boxes": {"column": "boxes", "order": "xyxy", "unit": "pixel"},
        "page": {"width": "width", "height": "height"},
    }
    return {
        "kind": "layout",
        "layout": {**base, **(section or {})},
        "tokenizer": {"path": str(LAYOUTLMV3)},
        "model": {"family": "layoutlmv3"},
        **more,
    }


def _case(
    reason: Reason, bad: Mapping[str, Any], near: Mapping[str, Any], section: Any = None, **more: Any
) -> Case:
    """Two pages."""
    content = lines(page(**bad), page(**near))
    schema = layout(section, **more.pop("schema", {}))
    return Case(reason, schema, {"a.jsonl": content}, "a.jsonl:1", "a.jsonl:2", **more)


def _box(reason: Reason, bad: Any, near: Any, **more: Any) -> Case:
    """Two pages whose first word has this box."""
    return _case(reason, {"boxes": [bad, BOXES[1]]}, {"boxes": [near, BOXES[1]]}, **more)


def _word(reason: Reason, bad: Any, near: Any, section: Any = None, **more: Any) -> Case:
    """Two pages whose first word is this."""
    return _case(reason, {"words": [bad, "two"]}, {"words": [near, "two"]}, section, **more)


def _labels(reason: Reason, bad: list[Any], near: list[Any], section: Any, **more: Any) -> Case:
    """Two pages with these labels."""
    return _case(reason, {"labels": bad}, {"labels": near}, section, **more)


def _answer(reason: Reason, bad: tuple[int, int], near: tuple[int, int], **more: Any) -> Case:
    """Two pages with these first and last words of the answer."""
    question = {"column": "question", "start": "start", "end": "end"}
    section = {"question": question, **more.pop("section", {})}
    words = more.pop("words", page())
    records = [{**words, "question": "who", "start": start, "end": end} for start, end in (bad, near)]
    return _case(reason, records[0], records[1], section, **more)


MANY = {"words": ["one"] * 24, "boxes": [[10 + 40 * i, 10, 40 + 40 * i, 30] for i in range(24)]}

SMALL = {"width": 25, "height": 25}
THREE = {"words": ["one", "two", "three"]}

CASES = (
    _box(
        Reason.BBOX_OUT_OF_PAGE,
        [10, 10, 1006, 30],
        [10, 10, 1005, 30],
        near_beside=frozenset({"bbox_clipped"}),
    ),
    _box(Reason.BBOX_CLIPPED, [10, 10, 1001, 30], [10, 10, 1000, 30]),
    _box(Reason.BBOX_NOT_FINITE, [10, 10, None, 30], [10, 10, 60, 30]),
    _box(Reason.BBOX_INVERTED, [60, 10, 10, 30], [10, 10, 60, 30]),
    _box(Reason.BBOX_ZERO_AREA, [10, 10, 10, 30], [10, 10, 11, 30]),
    _box(Reason.BBOX_ARITY, [10, 10, 60, 30, 0], [10, 10, 60, 30]),
    _box(Reason.BBOX_UNPARSED, "10 10 60 30", [10, 10, 60, 30]),
    _case(
        Reason.BBOX_UNIT_SUSPECT,
        {**SMALL, "boxes": [[0.1, 0.1, 0.5, 0.2], [0.5, 0.1, 1.0, 0.2]]},
        {**SMALL, "boxes": [[0.1, 0.1, 0.5, 0.2], [0.5, 0.1, 1.1, 0.2]]},
        name="ratio",
    ),
    _case(
        Reason.BBOX_UNIT_SUSPECT,
        {**THREE, "boxes": [[5, 5, 9, 8], [20, 5, 29, 8], [90, 5, 100, 8]]},
        {**THREE, "boxes": [[5, 5, 9, 8], [20, 5, 29, 8], [90, 5, 101, 8]]},
        name="percent",
    ),
    _case(Reason.PAGE_SIZE_INVALID, {"width": 0}, {"width": 120}),
    _case(Reason.WORDS_BOXES_MISMATCH, {"boxes": BOXES[:1]}, {}),
    _labels(Reason.WORDS_LABELS_MISMATCH, ["O"], ["O", "O"], NAMED),
    _word(Reason.WORD_EMPTY, "\u200b", "-"),
    _word(Reason.WORD_DROPPED, "##LT##", "##LT", {"drop_words": ["^##.*##$"]}),
    _word(Reason.WORD_TRIMMED, " one", "one"),
    _word(Reason.WORD_NOT_TEXT, 1, "1"),
    _word(Reason.WORD_CONTROL_TOKEN, "</s>", "</S>"),
    _word(Reason.TEXT_INVALID_UNICODE, "o\ufffde", "o\ufffce", name="word"),
    _case(Reason.DOC_EMPTY, {"words": [], "boxes": []}, {"words": ["one"], "boxes": BOXES[:1]}),
    _labels(Reason.LABEL_UNKNOWN, ["B-KEI", "O"], ["B-KEY", "O"], NAMED),
    _labels(
        Reason.LABEL_CASE_FOLDED,
        ["b-key", "O"],
        ["B-KEY", "O"],
        {"labels": {**NAMED["labels"], "fold_case": True}},
    ),
    _labels(
        Reason.LABEL_OUT_OF_RANGE,
        [3, 0],
        [2, 0],
        {"labels": {**IDS["labels"], "scheme": "none"}},
        name="above",
    ),
    _labels(Reason.LABEL_OUT_OF_RANGE, [-1, 0], [-100, 0], IDS, name="below"),
    _labels(Reason.LABEL_NOT_INTEGER, [1.5, 0], [1, 0], IDS),
    _labels(Reason.LABEL_ALL_IGNORED, [-100, -100], [-100, 0], IDS),
    _labels(Reason.LABEL_SCHEME_INVALID, ["O", "I-KEY"], ["B-KEY", "I-KEY"], NAMED),
    _answer(Reason.ANSWER_INVALID, (1, 0), (1, 1), name="order"),
    _answer(Reason.ANSWER_INVALID, (1, 2), (0, 1), name="not_there"),
    _answer(
        Reason.ANSWER_OUTSIDE_WINDOW,
        (0, 15),
        (0, 1),
        words=MANY,
        section={"window": {"max_tokens": 16, "stride": 0}},
        beside=frozenset({"sequence_too_long"}),
        near_beside=frozenset({"sequence_too_long"}),
    ),
    _case(
        Reason.SEQUENCE_TOO_LONG,
        {"words": ["one"] * 7, "boxes": MANY["boxes"][:7]},
        {"words": ["one"] * 6, "boxes": MANY["boxes"][:6]},
        {"window": {"max_tokens": 8, "stride": 0}},
        name="window",
    ),
)
