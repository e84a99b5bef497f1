"""Alpaca's optional history: a list of earlier exchanges, each a pair of texts."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from pipeline.arrays import Int64s, within
from pipeline.batch import Batch, Findings, Mask
from pipeline.fields import Content, message_dtype
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.stages.chat.turns import ASSISTANT, FIELDS, USER, Turns

_PAIRS = msgspec.json.Decoder(list[tuple[str, str]])


def history_turns(batch: Batch, column: str, schema: Schema, findings: Findings) -> Turns:
    """The turns of each record's history; a history that is no list of pairs is a finding."""
    texts: list[str] = []
    counts = np.zeros(len(batch), np.int64)
    present = np.ones(len(batch), np.bool_)
    written = batch.frame["@history"]
    given = np.flatnonzero(written.str.contains(r"[^\s\[\]]").fill_null(False).to_numpy())
    for i in given.tolist():
        try:
            pairs = _PAIRS.decode(written[i])
        except (msgspec.DecodeError, UnicodeEncodeError):
            present[i] = False
            continue
        texts.extend(text for pair in pairs for text in pair)
        counts[i] = 2 * len(pairs)
    bad = np.flatnonzero(~present)
    findings.add(
        Reason.VALUE_TYPE, Policy.QUARANTINE, column, batch.ids[bad],
        found="another value", expected="a list of pairs of texts",
    )  # fmt: skip
    return turns_of_pairs(texts, counts, present, column)


def turns_of_pairs(texts: list[str], counts: Int64s, present: Mask, column: str) -> Turns:
    """User and assistant turns by turns."""
    place = within(counts)
    data = pl.DataFrame({"content": pl.Series(texts, dtype=pl.String)}).with_columns(
        pl.lit(Content.TEXT.value).alias("content_kind"),
        pl.Series("role", np.where(place % 2, "assistant", "user"), dtype=pl.String),
    )
    others = [f for f in message_dtype().fields if f.name not in data.columns]
    frame = data.with_columns(*(pl.lit(None, f.dtype).alias(f.name) for f in others))
    return Turns(
        counts=counts,
        records=np.arange(len(counts), dtype=np.int64),
        roles=np.where(place % 2, ASSISTANT, USER).astype(np.int8),
        frame=frame.select(FIELDS),
        train=np.ones(len(texts), np.bool_),
        origins=np.zeros(len(texts), np.int16),
        places=place,
        columns=(column,),
        present=present,
    )
