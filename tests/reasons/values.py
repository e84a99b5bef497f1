"""Findings about values: types, ranges, texts, and content that stands twice."""

from __future__ import annotations

from typing import Any

from pipeline.reasons import Reason
from tests.reasons.case import LAYOUTLMV3, Case, lines, table

TEXT: dict[str, Any] = {"text": {}}


def _csv(reason: Reason, column: dict[str, Any], bad: str, near: str, **more: Any) -> Case:
    """Two rows with a value of this column each."""
    schema = table({"id": {}, "value": column}, files=["*.csv"])
    return Case(reason, schema, {"a.csv": f"id,value\na,{bad}\nb,{near}\n"}, "a.csv:2", "a.csv:3", **more)


def _jsonl(reason: Reason, column: dict[str, Any], bad: Any, near: Any, **more: Any) -> Case:
    """Two JSON records with a value of this column each."""
    records = ({"id": "a", "value": bad}, {"id": "b", "value": near})
    schema = table({"id": {}, "value": column})
    return Case(reason, schema, {"a.jsonl": lines(*records)}, "a.jsonl:1", "a.jsonl:2", **more)


INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
AGE = {"type": "integer", "min": 0, "max": 120}

SPLIT = table(
    {"key": {}, "text": {}}, files=["*.csv"], split={"key": "key", "shares": {"train": 0.5, "eval": 0.5}}
)
TRAINED, HELD_OUT = "b", "a"
"""Keys that fall into the two splits."""

CASES = (
    _csv(Reason.VALUE_MISSING, INTEGER, "", "0", name="cell"),
    _jsonl(Reason.VALUE_MISSING, INTEGER, None, 0, name="json"),
    _csv(Reason.VALUE_TYPE, INTEGER, "1O", "10", name="integer"),
    _csv(Reason.VALUE_TYPE, {"type": "date"}, "2023-02-29", "2024-02-29", name="date"),
    _jsonl(Reason.VALUE_TYPE, {"type": "boolean"}, "true", True, name="boolean"),
    _jsonl(Reason.VALUE_TYPE, {}, 42, "42", name="text"),
    _jsonl(Reason.VALUE_AS_SHOWN, {"as_shown": True}, 42, "42"),
    _csv(Reason.INTEGER_FROM_DECIMAL, INTEGER, "5.0", "5", name="cell"),
    _jsonl(Reason.INTEGER_FROM_DECIMAL, INTEGER, 5.0, 5, name="json"),
    _csv(Reason.VALUE_NOT_FINITE, NUMBER, "1e309", "1e308", name="overflow"),
    _csv(Reason.VALUE_NOT_FINITE, NUMBER, "nan", "0", name="nan"),
    _csv(Reason.VALUE_OUT_OF_RANGE, AGE, "121", "120", name="above"),
    _csv(Reason.VALUE_OUT_OF_RANGE, AGE, "-1", "0", name="below"),
    _csv(Reason.VALUE_NOT_ALLOWED, {"allowed": ["yes", "no"]}, "Yes", "yes"),
    _csv(Reason.TEXT_BLANK, {}, "\u200b", "\u2022", name="zero_width"),
    _csv(Reason.TEXT_BLANK, {}, "", "-", name="cell"),
    _csv(Reason.TEXT_TOO_SHORT, {"min_characters": 3}, "ab", "abc"),
    _csv(Reason.TEXT_TOO_LONG, {"max_characters": 3}, "abcd", "abc"),
    _csv(Reason.TEXT_PATTERN, {"pattern": "[a-z]-[0-9]{2}"}, "a-123", "a-12"),
    _csv(Reason.TEXT_INVALID_UNICODE, {}, "a\x00b", "ab", name="nul"),
    _csv(Reason.TEXT_INVALID_UNICODE, {}, "a\ufffdb", "a\ufffcb", name="replacement"),
    Case(
        Reason.TEXT_INVALID_UNICODE,
        table(),
        {"a.jsonl": '{"text": "\\ud83d"}\n{"text": "\\ud83d\\ude00"}\n'},
        "a.jsonl:1",
        "a.jsonl:2",
        name="surrogate",
    ),
    _csv(Reason.MOJIBAKE_SUSPECTED, {}, "cafÃ©", "café"),
    Case(
        Reason.DUPLICATE_ROW,
        table(files=["*.csv"]),
        {"a.csv": "text\na\nb\na\n"},
        "a.csv:4",
        "a.csv:3",
        policies={"duplicate_row": "quarantine"},
    ),
    Case(
        Reason.TRAIN_EVAL_OVERLAP,
        {**SPLIT, "tokenizer": {"path": str(LAYOUTLMV3)}, "table": {"text": "text"}},
        {"a.csv": f"key,text\n{TRAINED},one\n{HELD_OUT},one\n{TRAINED},two\n"},
        "a.csv:2",
        "a.csv:4",
    ),
)
