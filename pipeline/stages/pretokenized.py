"""Rows that were tokenized elsewhere: judged against the model's limits, never changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.arrow_lists import flatten, lists, owners
from pipeline.batch import Batch, Findings, Int64s, Samples
from pipeline.reasons import Reason
from pipeline.schema.model import Tokens, TokensSchema
from pipeline.shards import schemas
from pipeline.stages.context import Context
from pipeline.stages.kind import KindStages, SampleRules, one_a_sample
from pipeline.stages.sample_columns import carried, provenance

# The tokens that frame a conversation: one at the start, and one that ends each answer and must be learned.


@dataclass(slots=True)
class Frame:
    """Start tokens are counted; an end-of-turn token that closes a supervised stretch must be supervised itself.

    The second is lost where padding is masked by id and the padding token is the end-of-turn token: the model then
    never learns to stop. Padding behind a supervised end is no such case.
    """

    context: Context[TokensSchema]
    name: str = "frame"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        tokens = self.context.schema.tokens
        ids, lengths = flatten(batch.frame["@input_ids"].to_arrow())
        if tokens.bos is not None:
            self._judge_start(batch, ids, lengths, tokens.bos, findings)
        if tokens.end_of_turn is not None and "@labels" in batch.frame.columns:
            self._judge_ends(batch, ids, lengths, tokens, findings)
        return batch, findings

    def _judge_start(self, batch: Batch, ids: Int64s, lengths: Int64s, bos: int, findings: Findings) -> None:
        count = np.bincount(owners(lengths)[ids == bos], minlength=len(lengths))
        for reason, bad in (
            (Reason.BOS_DOUBLED, count > 1),
            (Reason.BOS_MISSING, (count == 0) & (lengths > 0)),
        ):
            hits = np.flatnonzero(bad)
            findings.add(
                reason,
                self.context.schema.policy(reason),
                "input_ids",
                batch.ids[hits],
                found=[str(n) for n in count[hits]],
                expected="1",
            )

    def _judge_ends(
        self, batch: Batch, ids: Int64s, lengths: Int64s, tokens: Tokens, findings: Findings
    ) -> None:
        labels, label_lengths = flatten(batch.frame["@labels"].to_arrow())
        if not np.array_equal(label_lengths, lengths):
            # Rows of uneven lengths are set aside already: judge the others.
            even = label_lengths == lengths
            labels = labels[even[owners(label_lengths)]]
            ids = ids[even[owners(lengths)]]
        else:
            even = np.ones(len(lengths), np.bool_)
        rows = np.flatnonzero(even)
        owner = rows[owners(lengths[even])] if len(rows) else np.empty(0, np.int64)
        learned = labels != tokens.ignore_index
        ends = (ids == tokens.end_of_turn) & ~learned
        before = np.zeros(len(ids), np.bool_)
        before[1:] = learned[:-1] & (ids[:-1] != tokens.end_of_turn) & (owner[1:] == owner[:-1])
        places = np.flatnonzero(ends & before)
        if not len(places):
            return
        record, first = np.unique(owner[places], return_index=True)
        starts = np.cumsum(lengths[even]) - lengths[even]
        offset = places[first] - starts[np.searchsorted(rows, record)]
        reason = Reason.EOS_NOT_SUPERVISED
        findings.add(
            reason,
            self.context.schema.policy(reason),
            "labels",
            batch.ids[record],
            paths=[f"[{place}]" for place in offset.tolist()],
            found=f"end-of-turn token {tokens.end_of_turn} is not supervised",
            expected="its id as its label",
        )


# Rows that were tokenized elsewhere: judged against the model's limits, never changed.


NAMES = ("@labels", "@attention_mask")


@dataclass(slots=True)
class Lengths:
    """``labels`` and ``attention_mask`` must be as long as ``input_ids``."""

    context: Context[TokensSchema]
    name: str = "lengths"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        policy = self.context.schema.policy(Reason.LENGTHS_MISMATCH)
        ids = batch.frame["@input_ids"].list.len()
        for name in NAMES:
            if name not in batch.frame.columns:
                continue
            other = batch.frame[name].list.len()
            hits = np.flatnonzero((ids != other).fill_null(False).to_numpy())
            found = [f"{ids[i]} input_ids, {other[i]} {name[1:]}" for i in hits.tolist()]
            findings.add(Reason.LENGTHS_MISMATCH, policy, name[1:], batch.ids[hits], found=found)
        return batch, findings


@dataclass(slots=True)
class Range:
    """Ids must be rows of the embedding, labels ids or -100: judged before they are stored as int32."""

    context: Context[TokensSchema]
    name: str = "range"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        top = self.context.limits.embedding_rows or 2**31  # an unknown model: whatever fits int32
        ignore = self.context.schema.tokens.ignore_index
        for name, ignored in (("@input_ids", None), ("@labels", ignore)):
            if name in batch.frame.columns:
                self._judge(batch, name, top, ignored, findings)
        return batch, findings

    def _judge(self, batch: Batch, name: str, top: int, ignored: int | None, findings: Findings) -> None:
        values, lengths = flatten(batch.frame[name].to_arrow())
        bad = (values < 0) | (values >= top)
        if ignored is not None:
            bad &= values != ignored
        hits = np.flatnonzero(bad)
        if not len(hits):
            return
        starts = np.cumsum(lengths) - lengths
        record = np.searchsorted(starts + lengths, hits, side="right")
        first = np.unique(record, return_index=True)[1]
        record, hits = record[first], hits[first]
        reason = Reason.TOKEN_OUT_OF_VOCAB
        findings.add(
            reason,
            self.context.schema.policy(reason),
            name[1:],
            batch.ids[record],
            paths=[f"[{hit - starts[r]}]" for hit, r in zip(hits.tolist(), record.tolist(), strict=True)],
            found=[str(v) for v in values[hits]],
            expected=f"0 to {top - 1}",
        )


@dataclass(slots=True)
class Encode:
    """The sequences as they are, under the Arrow schema ``shard``."""

    context: Context[TokensSchema]
    shard: pa.Schema
    name: str = "encode"

    def __call__(self, batch: Batch) -> tuple[Samples, Findings]:
        findings = Findings()
        every = np.arange(len(batch), dtype=np.int64)
        ids, lengths = flatten(batch.frame["@input_ids"].to_arrow())
        self._judge_length(batch, lengths, findings)
        columns = {**provenance(batch, every, findings), **carried(batch, every, self.context.columns)}
        columns["input_ids"] = lists(ids.astype(np.int32), lengths, schemas.IDS)
        columns["attention_mask"] = self._mask(batch, lengths)
        if "@labels" in batch.frame.columns:
            labels, _ = flatten(batch.frame["@labels"].to_arrow())
            ignored = labels == self.context.schema.tokens.ignore_index
            labels = np.where(ignored, schemas.IGNORE, labels)
            columns["labels"] = lists(labels.astype(np.int32), lengths, schemas.IDS)
        table = pa.table([columns[f.name] for f in self.shard], schema=self.shard)
        return Samples(table, batch.ids), findings

    def _judge_length(self, batch: Batch, lengths: Int64s, findings: Findings) -> None:
        """Too long is quarantined: where to cut is not for this pipeline to say."""
        tokens, limits = self.context.schema.tokens, self.context.limits
        bounds = [n for n in (tokens.max_tokens, limits.max_tokens) if n is not None]
        if not bounds:
            return
        hits = np.flatnonzero(lengths > min(bounds))
        reason = Reason.TOO_LONG_FOR_TARGET
        findings.add(
            reason,
            self.context.schema.policy(reason),
            "input_ids",
            batch.ids[hits],
            found=[str(int(n)) for n in lengths[hits]],
            expected=str(min(bounds)),
        )

    def _mask(self, batch: Batch, lengths: Int64s) -> pa.Array:
        if "@attention_mask" not in batch.frame.columns:
            return lists(np.ones(int(lengths.sum()), np.int8), lengths, schemas.MASK)
        values, own = flatten(batch.frame["@attention_mask"].to_arrow())
        given = batch.frame["@attention_mask"].is_not_null().to_numpy()
        mask = np.ones(int(lengths.sum()), np.int64)
        mask[np.repeat(given, lengths)] = values[np.repeat(given, own)]
        return lists(np.clip(mask, 0, 127).astype(np.int8), lengths, schemas.MASK)


class TokensKind:
    """Rows that were tokenized elsewhere, as a ``Kind``."""

    def check(self, schema: TokensSchema) -> None:
        """Nothing: the sections do not speak of each other."""

    def label_names(self, schema: TokensSchema) -> tuple[str, ...]:
        """None: labels are token ids."""
        return ()

    def sample_rules(self, schema: TokensSchema) -> SampleRules:
        """Labels are token ids, not always those of their own token; the section says whether they are shifted."""
        return SampleRules(causal_shift=schema.tokens.causal_shift)

    def stages(self, context: Context[TokensSchema]) -> KindStages:
        """Judged, then taken over."""
        shard = schemas.tokens(context.columns, labels=context.schema.tokens.labels is not None)
        records = (Lengths(context), Range(context), Frame(context))
        return KindStages(records, Encode(context, shard), shard)

    def contents(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One record a sample."""
        return one_a_sample(batch)
