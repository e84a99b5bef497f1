"""The encode stage of chats: good records become samples under the shard schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.arrow_lists import Int64s, lists, offsets, within
from pipeline.batch import Batch, Findings, Samples
from pipeline.models.template_check import TemplateProof
from pipeline.schema.chat import Messages, Preference, Tree
from pipeline.schema.model import ChatSchema
from pipeline.shards import schemas
from pipeline.stages.chat.assemble import END, Encoded
from pipeline.stages.chat.pack import PACKED
from pipeline.stages.chat.shorten import ChatFitter, FittedChats, limit_of, select
from pipeline.stages.chat.tokenize import ChatTokenizer
from pipeline.stages.chat.turns import REJECTED, ROLES, TOOLS, TURNS, Turns, conversations
from pipeline.stages.context import Context
from pipeline.stages.sample_columns import carried, provenance

if TYPE_CHECKING:
    import polars as pl

AUDIT_EVERY = 1000
"""One record in so many goes through the template and the reference tokenizer as a whole as well."""


class Encode:
    """Turns become tokens, under the Arrow schema ``shard``."""

    name = "encode"

    def __init__(self, context: Context[ChatSchema], proof: TemplateProof, shard: pa.Schema) -> None:
        self.context = context
        self._shard = shard
        schema = context.schema
        limit = limit_of(schema.chat, context.limits.max_tokens)
        self.codec = ChatTokenizer(proof.template, proof.tokenizer)
        self._fit = ChatFitter(schema, self.codec, limit)
        self._preference = isinstance(schema.chat.source, Preference)
        self._column = schema.chat.source.column if isinstance(schema.chat.source, Messages | Tree) else ""
        self._packed = schema.chat.packing is not None

    def __call__(self, batch: Batch) -> tuple[Samples, Findings]:
        findings = Findings()
        turns = conversations(batch.frame[TURNS], self._column)
        tools = _tools(batch, turns)
        audited = np.flatnonzero(batch.ids[turns.records] % AUDIT_EVERY == 0)
        fitted = self._fit(batch, turns, findings, tools, audited)
        other = None
        if self._preference:
            rejected = conversations(batch.frame[REJECTED])
            other = self._fit(batch, rejected, findings, tools)
        good = ~np.isin(batch.ids[turns.records], findings.rejected()) & (fitted.encoded.lengths > 0)
        return self._samples(batch, fitted, other, np.flatnonzero(good), findings), findings

    def _samples(
        self, batch: Batch, fitted: FittedChats, other: FittedChats | None, keep: Int64s, findings: Findings
    ) -> Samples:
        turns = fitted.turns.select(keep)
        encoded = select(fitted.encoded, fitted.turns, keep)
        records = turns.records
        several = len(np.unique(records)) < len(records)
        number = _number_within(records) if several else None
        columns = provenance(batch, records, findings, number)
        columns |= carried(batch, records, self.context.columns)
        columns |= _tokens(encoded)
        columns["turns"] = _turn_spans(turns, encoded)
        columns["tokens_dropped"] = pa.array(fitted.dropped[keep], pa.int32())
        if other is not None:
            rejected = select(other.encoded, other.turns, keep)
            columns["rejected_input_ids"] = lists(rejected.ids, rejected.lengths, schemas.IDS)
            columns["rejected_labels"] = lists(_labels(rejected), rejected.lengths, schemas.IDS)
        if self._packed:
            columns["position_ids"] = lists(
                within(encoded.lengths).astype(np.int32), encoded.lengths, schemas.IDS
            )
            columns[PACKED] = pa.ListArray.from_arrays(
                pa.array(np.arange(len(keep) + 1, dtype=np.int32)), columns["sample_id"]
            )
        if self.context.schema.output.keep_record:
            columns["record"] = pa.array(_records(turns), pa.string())
        table = pa.table([columns[f.name] for f in self._shard], schema=self._shard)
        return Samples(table, batch.ids[records])


def _tools(batch: Batch, turns: Turns) -> list[Any] | None:
    """Tool definitions of each conversation, None where no record of the batch has any."""
    if TOOLS not in batch.frame.columns:
        return None
    written: pl.Series = batch.frame[TOOLS]
    if not written.is_not_null().any():
        return None
    decoded = [None if text is None else msgspec.json.decode(text) for text in written.to_list()]
    return [decoded[i] for i in turns.records.tolist()]


def _number_within(records: Int64s) -> Int64s:
    """Number of each conversation within its record."""
    return within(np.unique(records, return_counts=True)[1].astype(np.int64))


def _labels(encoded: Encoded) -> Any:
    return np.where(encoded.learned, encoded.ids, np.int32(schemas.IGNORE))


def _tokens(encoded: Encoded) -> dict[str, pa.Array]:
    return {
        "input_ids": lists(encoded.ids, encoded.lengths, schemas.IDS),
        "attention_mask": lists(np.ones(len(encoded.ids), np.int8), encoded.lengths, schemas.MASK),
        "labels": lists(_labels(encoded), encoded.lengths, schemas.IDS),
    }


def _turn_spans(turns: Turns, encoded: Encoded) -> pa.ListArray:
    """Role and token span of each turn: from the end of the one before to its own end."""
    ends = encoded.marks[:, END].astype(np.int32)
    starts = np.zeros(len(ends), np.int32)
    starts[1:] = ends[:-1]
    starts[turns.starts[turns.counts > 0]] = 0
    kind = schemas.chat([], record=False).field("turns").type
    roles = pa.DictionaryArray.from_arrays(pa.array(turns.roles, pa.int8()), pa.array(ROLES)).cast(
        pa.string()
    )
    inner = pa.StructArray.from_arrays(
        [roles, pa.array(starts), pa.array(ends)], fields=list(kind.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(offsets(turns.counts)), inner, type=kind)


def _records(turns: Turns) -> list[str]:
    """Each conversation as certified: ``{"messages": [{"role", "content", …}]}``."""
    roles = [ROLES[code] for code in turns.roles.tolist()]
    contents = turns.content.to_list()
    calls = turns.frame["tool_calls"].to_list()
    out = []
    for start, count in zip(turns.starts.tolist(), turns.counts.tolist(), strict=True):
        messages = []
        for t in range(start, start + count):
            message: dict[str, Any] = {"role": roles[t], "content": contents[t]}
            if calls[t] is not None:
                message["tool_calls"] = msgspec.json.decode(calls[t])
            messages.append(message)
        out.append(msgspec.json.encode({"messages": messages}).decode())
    return out
