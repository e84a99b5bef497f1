"""Encode: words become tokens with their word's box and label, pages become windows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.arrow_lists import within
from pipeline.batch import Batch, Findings, Int64s, Samples
from pipeline.errors import SchemaError
from pipeline.models.families import Limits
from pipeline.models.tokenizer import Tokenizer
from pipeline.reasons import Policy, Reason
from pipeline.schema.layout import Layout
from pipeline.schema.model import LayoutSchema
from pipeline.stages.context import Context
from pipeline.stages.layout.answers import answer_columns
from pipeline.stages.layout.images import IMAGE, PAGE_ID, PIXELS
from pipeline.stages.layout.labels import PAGE_LABEL, LabelNames, orphaned
from pipeline.stages.layout.ragged import WORDS, indexed, per_record, shown_hits
from pipeline.stages.layout.windows import (
    QUESTION,
    Assembly,
    FlatPages,
    Prefix,
    Windows,
    label_column,
    plain_prefix,
    question_prefix,
    special_ends,
    token_columns,
    windows,
    worth_learning,
)
from pipeline.stages.sample_columns import carried, provenance


@dataclass(slots=True)
class Encode:
    """The samples of good records: one a window.

    Attributes:
        shard, pages: Arrow schemas of the samples, and of the page images where the schema reads them.
    """

    context: Context[LayoutSchema]
    shard: pa.Schema
    pages: pa.Schema | None
    name: str = "encode"
    _layout: Layout = field(init=False)
    _limits: Limits = field(init=False)
    _tokenizer: Tokenizer = field(init=False)
    _names: LabelNames | None = field(init=False, default=None)
    _longest: int = field(init=False)

    def __post_init__(self) -> None:
        layout, limits = self.context.schema.layout, self.context.limits
        tokenizer = self.context.needed_tokenizer()
        self._layout, self._tokenizer, self._limits = layout, tokenizer, limits
        self._names = LabelNames.of(layout.labels) if layout.labels is not None else None
        special_ends(tokenizer)
        self._longest = min(layout.window.max_tokens, limits.max_tokens or layout.window.max_tokens)
        if layout.window.stride >= self._longest - 2:
            raise SchemaError(
                "windows would not move on",
                where="layout: window: stride",
                found=str(layout.window.stride),
                expected=f"less than {self._longest - 2}, the tokens of a window without its two special ones",
            )

    def __call__(self, batch: Batch) -> tuple[Samples, Findings]:
        findings = Findings()
        page = FlatPages.of(batch)
        # An Arrow array: the tokenizer remembers words, and looks each distinct one up once.
        ids, counts = self._tokenizer.encode_words(page.words.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._tokenless(batch, page, counts, findings)
        prefix = self._prefix(batch)
        cut = self._cut(batch, page, counts, prefix, findings)
        laid = Assembly.of(cut, prefix, counts)
        closing = special_ends(self._tokenizer)[1]
        columns = token_columns(page, ids, prefix, closing, laid, self._limits)
        columns |= self._targets(batch, page, counts, cut, prefix, laid, findings)
        columns |= carried(batch, cut.record, self.context.columns)
        columns |= provenance(batch, cut.record, findings, cut.number)
        columns["window"] = pa.array(cut.number, pa.int32())
        columns["windows"] = pa.array(cut.count, pa.int32())
        if self._layout.image is not None:
            page_ids = batch.frame[PAGE_ID].to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())
            columns["page_id"] = page_ids.take(pa.array(cut.record))
        if self.context.schema.output.keep_record:
            records = pa.array(page.records(self._layout.labels), pa.string())
            columns["record"] = records.take(pa.array(cut.record))
        table = pa.table([columns[name] for name in self.shard.names], schema=self.shard)
        return Samples(table, batch.ids[cut.record], self._pages(batch)), findings

    def _prefix(self, batch: Batch) -> Prefix:
        if QUESTION in batch.frame.columns:
            return question_prefix(batch, self._tokenizer, self._limits)
        return plain_prefix(self._tokenizer, self._limits, len(batch))

    def _tokenless(self, batch: Batch, page: FlatPages, counts: Int64s, findings: Findings) -> None:
        """Words the tokenizer makes nothing of: they vanish, with their label."""
        nothing = counts == 0
        if not nothing.any():
            return
        owner = page.owner
        broken = orphaned(self._names, page.labels, page.lengths, ~nothing)[owner]
        empty = (per_record(page.lengths, ~nothing) == 0)[owner]
        policy = self.context.schema.policy(Reason.WORD_EMPTY)
        for how, hit in (
            (policy, nothing & ~broken & ~empty),
            (Policy.QUARANTINE, nothing & (broken | empty)),
        ):
            hits = shown_hits(owner, hit)
            findings.add(
                Reason.WORD_EMPTY,
                how,
                WORDS,
                batch.ids[owner[hits]],
                paths=indexed(page.index[hits]),
                found="no token",
            )

    def _cut(
        self, batch: Batch, page: FlatPages, counts: Int64s, prefix: Prefix, findings: Findings
    ) -> Windows:
        """Windows of the batch's pages; none of a page whose question leaves no room for them."""
        tokens = np.add.reduceat(np.append(counts, 0), page.starts) * (page.lengths > 0)
        room = self._longest - prefix.lengths - 1
        narrow = np.flatnonzero(room <= self._layout.window.stride)
        findings.add(
            Reason.TOO_LONG_FOR_TARGET,
            Policy.QUARANTINE,
            QUESTION,
            batch.ids[narrow],
            found=[str(count) for count in prefix.lengths[narrow].tolist()],
            expected=f"less than {self._longest - self._layout.window.stride - 1}",
        )
        tokens[narrow], room[narrow] = 0, self._longest
        long = np.flatnonzero(tokens > room)
        findings.add(
            Reason.SEQUENCE_TOO_LONG,
            self.context.schema.policy(Reason.SEQUENCE_TOO_LONG),
            WORDS,
            batch.ids[long],
            found=[str(count) for count in (tokens + prefix.lengths + 1)[long].tolist()],
            expected=str(self._longest),
        )
        cut = windows(tokens, room, self._layout.window.stride)
        labels = self._layout.labels
        if labels is not None and labels.align == "first_subword" and len(long):
            return worth_learning(cut, within(counts) == 0)
        return cut

    def _targets(
        self,
        batch: Batch,
        page: FlatPages,
        counts: Int64s,
        cut: Windows,
        prefix: Prefix,
        laid: Assembly,
        findings: Findings,
    ) -> dict[str, pa.Array]:
        """What is learned: a label a token, a label a page, an answer."""
        columns: dict[str, pa.Array] = {}
        layout = self._layout
        if page.labels is not None and layout.labels is not None:
            first_only = layout.labels.align == "first_subword"
            columns["labels"] = label_column(page.labels, laid, cut, counts, first_only=first_only)
        if layout.page_label is not None:
            columns["labels"] = pa.array(batch.frame[PAGE_LABEL].to_numpy()[cut.record], pa.int64())
        if layout.question is not None and layout.question.start is not None:
            policy = self.context.schema.policy(Reason.ANSWER_OUTSIDE_WINDOW)
            columns |= answer_columns(batch, page, counts, cut, prefix, findings, policy)
        return columns

    def _pages(self, batch: Batch) -> pa.Table | None:
        """The page images of the batch, each once."""
        schema = self.pages
        if schema is None:
            return None
        frame = batch.frame.select(PAGE_ID, IMAGE, PIXELS).filter(pl.col(PIXELS).is_not_null())
        frame = frame.unique(PAGE_ID, keep="first", maintain_order=True)
        numbers = pa.array(np.frombuffer(b"".join(frame[PIXELS].to_list()), np.uint8))
        columns = {
            "page_id": pa.array(frame[PAGE_ID].to_list(), pa.string()),
            "source": pa.array([batch.source] * len(frame), pa.string()),
            "image": pa.array(frame[IMAGE].to_list(), pa.string()),
            "pixels": pa.FixedSizeListArray.from_arrays(numbers, type=schema.field("pixels").type),
        }
        return pa.table([columns[name] for name in schema.names], schema=schema)
