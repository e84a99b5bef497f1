"""Fields and ways of reading that the tests of the cast stage share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings
from pipeline.fields import Field, FieldType, Kind
from pipeline.reasons import Reason
from pipeline.schema.fields import MESSAGE_KEYS
from pipeline.stages.cast import Cast
from tests.readers.tables import TEXT, Result, read_bytes, schema

NUMBER, INTEGER, BOOLEAN = FieldType(Kind.NUMBER), FieldType(Kind.INTEGER), FieldType(Kind.BOOLEAN)
WORDS = Field(
    "@words",
    "words",
    FieldType(Kind.WORDS),
    missing=Reason.DOC_EMPTY,
    wrong=Reason.WORD_NOT_TEXT,
    as_shown=True,
)
BOXES = Field(
    "@boxes", "boxes", FieldType(Kind.BOXES), missing=Reason.WORDS_BOXES_MISMATCH, wrong=Reason.BBOX_UNPARSED
)
NAMES = Field("@labels", "labels", FieldType(Kind.LABELS), wrong=Reason.LABEL_UNKNOWN)
IDS = Field("@labels", "labels", FieldType(Kind.LABELS, ids=True), wrong=Reason.LABEL_NOT_INTEGER)
TURN = Field(
    "@prompt", "prompt", TEXT, missing=Reason.CONTENT_EMPTY, wrong=Reason.CONTENT_NOT_TEXT, as_shown=True
)
MESSAGES = Field(
    "@messages",
    "messages",
    FieldType(Kind.MESSAGES),
    missing=Reason.CONVERSATION_EMPTY,
    message_keys=MESSAGE_KEYS,
)


def typed(name: str, kind: FieldType, **more: Any) -> Field:
    return Field(name, name, kind, **more)


def from_json(
    tmp_path: Path, fields: tuple[Field, ...], *lines: str, policies: dict[str, str] | None = None
) -> Result:
    return read_bytes(tmp_path, "\n".join(lines).encode(), "x.jsonl", fields, schema(policies), cast=True)


def from_csv(
    tmp_path: Path,
    fields: tuple[Field, ...],
    text: str,
    policies: dict[str, str] | None = None,
    **reading: Any,
) -> Result:
    return read_bytes(tmp_path, text.encode(), "x.csv", fields, schema(policies, **reading), cast=True)


def from_frame(
    fields: tuple[Field, ...], frame: pl.DataFrame
) -> tuple[pl.DataFrame, list[tuple[int, str, str]]]:
    ids = np.arange(frame.height, dtype=np.int64)
    batch, findings = Cast(schema(), fields)(
        Batch("x.parquet", None, ids, ids + 1, pl.DataFrame(), columns=frame)
    )
    for field in fields:
        assert batch.frame.schema[field.name] == field.type.dtype()
    assert batch.columns is frame  # the quarantine keeps what was read
    return batch.frame, said(findings)


def said(findings: Findings) -> list[tuple[int, str, str]]:
    return sorted((i, item.reason.slug, item.column) for item in findings.items for i in item.ids.tolist())
