"""The last look: one value of a good sample is spoiled, and exactly that is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.batch import Samples
from pipeline.models.families import limits_for
from pipeline.reasons import Reason
from pipeline.schema.model import Model, Schema, schema_of
from pipeline.shards import schemas
from pipeline.stages.build import kind_of
from pipeline.stages.certify import Certify, without
from pipeline.stages.context import Context

PROVENANCE: dict[str, Any] = {"sample_id": "a#1", "source": "a", "sheet": None, "row": 1, "notes": []}
LAYOUT: dict[str, Any] = {
    **PROVENANCE,
    "input_ids": [0, 5, 6, 2],
    "attention_mask": [1, 1, 1, 1],
    "bbox": [[0, 0, 0, 0], [1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 0, 0]],
    "word_ids": [-1, 0, 0, -1],
    "window": 0,
    "windows": 1,
    "labels": [-100, 1, -100, -100],
}
CHAT: dict[str, Any] = {
    **PROVENANCE,
    "input_ids": [1, 5, 6, 2],
    "attention_mask": [1, 1, 1, 1],
    "labels": [-100, -100, 6, 2],
    "turns": [],
    "tokens_dropped": 0,
}
TABLE: dict[str, Any] = {**PROVENANCE, "input_ids": [1], "attention_mask": [1], "labels": 1}


def context(kind: str) -> Context[Schema]:
    sections: dict[str, Any] = {
        "layout": {"layout": {"words": "w", "boxes": {"column": "b", "order": "xyxy", "unit": "norm1000"}}},
        "chat": {"chat": {"source": {"format": "messages"}, "max_tokens": 9}},
        "table": {"table": {}},
    }
    base = {"version": 1, "name": "s", "kind": kind, "files": ["*"], "tokenizer": {"path": "t"}}
    schema = schema_of({**base, **sections[kind]})
    family = "layoutlmv3" if kind == "layout" else None
    model = Model(family=family, embedding_rows=10)
    return Context(schema, Path(), Path(), (), limits=limits_for(model, Path(), 10, 1, 3))


def certify(kind: str) -> Certify:
    made = context(kind)
    return Certify(made, kind_of(made.schema).sample_rules(made.schema))


def samples(kind: str, rows: list[dict[str, Any]]) -> Samples:
    shard = {
        "layout": schemas.layout([], float_boxes=False, labels=True, image=False, record=False),
        "chat": schemas.chat([], record=False),
        "table": schemas.table([], tokenized=True, label=True),
    }[kind]
    return Samples(pa.Table.from_pylist(rows, schema=shard), np.arange(len(rows), dtype=np.int64))


GOOD = {"layout": LAYOUT, "chat": CHAT, "table": TABLE}


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_sample_passes(kind: str) -> None:
    _, findings = certify(kind)(samples(kind, [GOOD[kind]]))
    assert not findings.items


SPOILED = [
    ("layout", "input_ids", [0, 10, 6, 2], Reason.TOKEN_OUT_OF_VOCAB),
    ("layout", "input_ids", [0, -1, 6, 2], Reason.TOKEN_OUT_OF_VOCAB),
    ("layout", "bbox", [[0, 0, 0, 0], [1, 2, 1001, 4], [1, 2, 3, 4], [0] * 4], Reason.BBOX_OUT_OF_PAGE),
    ("layout", "bbox", [[0, 0, 0, 0], [-1, 2, 3, 4], [1, 2, 3, 4], [0] * 4], Reason.BBOX_OUT_OF_PAGE),
    ("layout", "bbox", [[0, 0, 0, 0], [3, 2, 1, 4], [1, 2, 3, 4], [0] * 4], Reason.BBOX_INVERTED),
    ("layout", "bbox", [[0, 0, 0, 0], [1, 4, 3, 2], [1, 2, 3, 4], [0] * 4], Reason.BBOX_INVERTED),
    ("layout", "bbox", [[0, 0, 0, 0], [0, 0, 0, 0], [1, 2, 3, 4], [0] * 4], Reason.BBOX_ZERO_AREA),
    ("layout", "bbox", [[0, 0, 0, 0], [1, 2, 3, 4], [1, 2, 3, 4]], Reason.LENGTHS_MISMATCH),
    ("layout", "labels", [-100, 3, -100, -100], Reason.LABEL_OUT_OF_RANGE),
    ("layout", "labels", [-100, -1, 0, -100], Reason.LABEL_OUT_OF_RANGE),
    ("layout", "labels", [-100] * 4, Reason.LABEL_ALL_IGNORED),
    ("layout", "attention_mask", [0, 0, 0, 0], Reason.ATTENTION_EMPTY),
    ("layout", "attention_mask", [1, 1, 2, 1], Reason.VALUE_OUT_OF_RANGE),
    ("layout", "attention_mask", [1, 1, 1], Reason.LENGTHS_MISMATCH),
    ("chat", "labels", [-100] * 4, Reason.NO_SUPERVISED_TOKENS),
    ("chat", "labels", [1, -100, -100, -100], Reason.NO_SUPERVISED_TOKENS),
    ("chat", "labels", [-100, -100, 7, 2], Reason.MASK_MISALIGNED),
    ("chat", "labels", [-100, -100, 6], Reason.LENGTHS_MISMATCH),
    ("chat", "input_ids", [1, 5, 6, 99], Reason.TOKEN_OUT_OF_VOCAB),
    ("table", "labels", 3, Reason.LABEL_OUT_OF_RANGE),
    ("table", "labels", -1, Reason.LABEL_OUT_OF_RANGE),
    ("table", "input_ids", [], Reason.SEQUENCE_TOO_SHORT),
]


@pytest.mark.parametrize(("kind", "column", "value", "reason"), SPOILED)
def test_one_spoiled_value_is_found_and_only_its_record_is_rejected(
    kind: str, column: str, value: Any, reason: Reason
) -> None:
    rows = [GOOD[kind], {**GOOD[kind], column: value}, GOOD[kind]]
    given, findings = certify(kind)(samples(kind, rows))
    assert reason in {finding.reason for finding in findings.items}
    assert findings.rejected().tolist() == [1]
    assert without(given, findings).ids.tolist() == [0, 2]


def test_one_token_of_a_chat_is_too_short_to_learn_from() -> None:
    row = {**CHAT, "input_ids": [1], "attention_mask": [1], "labels": [1]}
    _, findings = certify("chat")(samples("chat", [row]))
    assert {f.reason for f in findings.items} == {Reason.SEQUENCE_TOO_SHORT, Reason.NO_SUPERVISED_TOKENS}


def test_the_position_formula_of_the_family_holds_exactly() -> None:
    """LayoutLMv3: 514 positions, pad id 1, so 512 tokens fit and 513 do not."""
    for count, fits in ((512, True), (513, False)):
        row = {
            **LAYOUT,
            "input_ids": [5] * count,
            "attention_mask": [1] * count,
            "bbox": [[1, 2, 3, 4]] * count,
            "word_ids": [0] * count,
            "labels": [1] * count,
        }
        _, findings = certify("layout")(samples("layout", [row]))
        assert ([f.reason for f in findings.items] == []) is fits


def test_all_samples_of_a_record_are_rejected_with_one_bad_window() -> None:
    given = samples("layout", [LAYOUT, {**LAYOUT, "labels": [-100] * 4}, LAYOUT])
    given = Samples(given.table, np.array([4, 4, 9], np.int64))
    _, findings = certify("layout")(given)
    assert without(given, findings).ids.tolist() == [9]


ANSWERED: dict[str, Any] = {
    **{key: value for key, value in LAYOUT.items() if key != "labels"},
    "input_ids": [0, 9, 2, 5, 6, 2],
    "attention_mask": [1] * 6,
    "bbox": [[0] * 4] * 3 + [[1, 2, 3, 4]] * 2 + [[0] * 4],
    "word_ids": [-1, -1, -1, 0, 1, -1],
}


@pytest.mark.parametrize(
    ("start", "end", "good"),
    [
        (3, 4, True),
        (4, 4, True),
        (0, 0, True),
        (4, 3, False),
        (3, 5, False),
        (3, 6, False),
        (-1, 4, False),
        (1, 4, False),
    ],
)
def test_an_answer_is_a_span_of_words_or_the_start_token(start: int, end: int, good: bool) -> None:
    shard = schemas.layout([], float_boxes=False, labels=False, image=False, record=False, answer=True)
    rows = [{**ANSWERED, "start_positions": 3, "end_positions": 4}]
    rows.append({**ANSWERED, "start_positions": start, "end_positions": end})
    given = Samples(pa.Table.from_pylist(rows, schema=shard), np.arange(2, dtype=np.int64))
    _, findings = certify("layout")(given)
    assert findings.rejected().tolist() == ([] if good else [1])
    assert {item.reason for item in findings.items} <= {Reason.ANSWER_INVALID}
