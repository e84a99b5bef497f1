"""The tokens that frame a conversation: one at the start, and one that ends each answer and must be learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import flat, owners
from pipeline.batch import Batch, Findings, Int64s
from pipeline.reasons import Reason
from pipeline.schema.model import Tokens
from pipeline.stages.context import Context


@dataclass(slots=True)
class Frame:
    """Start tokens are counted; an end-of-turn token that closes a supervised stretch must be supervised itself.

    The second is lost where padding is masked by id and the padding token is the end-of-turn token: the model then
    never learns to stop. Padding behind a supervised end is no such case.
    """

    context: Context
    name: str = "frame"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        tokens = self.context.schema.tokens or Tokens()
        ids, lengths = flat(batch.frame["@input_ids"].to_arrow())
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
                reason, self.context.schema.policy(reason), "input_ids", batch.ids[hits],
                found=[str(n) for n in count[hits]], expected="1",
            )  # fmt: skip

    def _judge_ends(
        self, batch: Batch, ids: Int64s, lengths: Int64s, tokens: Tokens, findings: Findings
    ) -> None:
        labels, label_lengths = flat(batch.frame["@labels"].to_arrow())
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
            reason, self.context.schema.policy(reason), "labels", batch.ids[record],
            paths=[f"[{place}]" for place in offset.tolist()],
            found=f"end-of-turn token {tokens.end_of_turn} is not supervised", expected="its id as its label",
        )  # fmt: skip
