"""Certify: judge the final ids, masks, labels and boxes of every sample against the target model.

This is the last look before the shard: it does not trust the stages before it, and knows nothing but the columns of
the sample and the limits of the model. A record any of whose samples is bad is rejected whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrow_lists import Int64s, flatten, owners
from pipeline.batch import Findings, Mask, Samples
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.shards.schemas import IGNORE
from pipeline.stages.context import Context
from pipeline.stages.kind import SampleRules

Numbers = npt.NDArray[Any]
MOST = 2**31
"""Bound of an id where the model is not known: what fits int32."""


@dataclass(slots=True)
class Certify:
    """The judgement of final samples, as a stage."""

    context: Context[Schema]
    rules: SampleRules
    name: str = "certify"

    def __call__(self, samples: Samples) -> tuple[Samples, Findings]:
        findings = Findings()
        names = set(samples.table.column_names)
        if "input_ids" in names:
            self._tokens(samples, findings)
        if "labels" in names and pa.types.is_list(samples.table.schema.field("labels").type):
            self._labels(samples, "labels", findings)
        if "rejected_labels" in names:
            self._labels(samples, "rejected_labels", findings)
        if "token_type_ids" in names and "input_ids" in names:
            self._token_types(samples, findings)
        if "position_ids" in names and "input_ids" in names:
            self._positions(samples, findings)
        if "bbox" in names:
            self._boxes(samples, findings)
        if "labels" in names and pa.types.is_integer(samples.table.schema.field("labels").type):
            self._classes(samples, findings)
        if "start_positions" in names:
            self._answers(samples, findings)
        return samples, findings

    def _tokens(self, samples: Samples, findings: Findings) -> None:
        limits = self.context.limits
        judge = _Judgement(samples, findings, "input_ids")
        ids, lengths = flatten(samples.table["input_ids"])
        rows = limits.embedding_rows or MOST
        judge.values(Reason.TOKEN_OUT_OF_VOCAB, (ids < 0) | (ids >= rows), lengths, ids, f"0 to {rows - 1}")
        least = self.rules.least_tokens
        judge.samples(Reason.SEQUENCE_TOO_SHORT, lengths < least, lengths, str(least))
        if (longest := limits.max_tokens) is not None:
            judge.samples(Reason.TOO_LONG_FOR_TARGET, lengths > longest, lengths, str(longest))
        judge = _Judgement(samples, findings, "attention_mask")
        mask, mask_lengths = flatten(samples.table["attention_mask"])
        judge.samples(Reason.LENGTHS_MISMATCH, mask_lengths != lengths, mask_lengths, "one a token")
        judge.values(Reason.VALUE_OUT_OF_RANGE, (mask != 0) & (mask != 1), mask_lengths, mask, "0 or 1")
        attended = np.bincount(owners(mask_lengths)[mask != 0], minlength=len(lengths))
        judge.samples(Reason.ATTENTION_EMPTY, attended == 0, attended, "at least one 1")

    def _token_types(self, samples: Samples, findings: Findings) -> None:
        """A column that a schema carries under this name reaches the model: one type a token, a row of its table."""
        column = samples.table["token_type_ids"]
        limits, model = self.context.limits, self.context.schema.model
        judge = _Judgement(samples, findings, "token_type_ids")
        types, lengths = flatten(column)
        _, id_lengths = flatten(samples.table["input_ids"])
        given = column.is_valid().to_numpy()
        judge.samples(Reason.LENGTHS_MISMATCH, given & (lengths != id_lengths), lengths, "one a token")
        known = model.family is not None or model.config is not None
        rows = limits.type_vocab if known else MOST
        wrong = (types < 0) | (types >= rows)
        judge.values(Reason.TOKEN_TYPE_OUT_OF_RANGE, wrong, lengths, types, f"0 to {rows - 1}")

    def _positions(self, samples: Samples, findings: Findings) -> None:
        """Positions count up from 0 and begin again at 0 where another text begins: then each is below the length of
        its sample, which is judged against the model's positions."""
        judge = _Judgement(samples, findings, "position_ids")
        positions, lengths = flatten(samples.table["position_ids"])
        _, id_lengths = flatten(samples.table["input_ids"])
        judge.samples(Reason.LENGTHS_MISMATCH, lengths != id_lengths, lengths, "one a token")
        before = np.concatenate([[-1], positions[:-1]])
        before[(np.cumsum(lengths) - lengths)[lengths > 0]] = -1  # a sample begins with 0
        wrong = (positions != 0) & (positions != before + 1)
        judge.values(
            Reason.VALUE_OUT_OF_RANGE, wrong, lengths, positions, "0, or one more than the position before"
        )

    def _labels(self, samples: Samples, column: str, findings: Findings) -> None:
        limits, classes = self.context.limits, not self.rules.labels_are_tokens
        judge = _Judgement(samples, findings, column)
        labels, lengths = flatten(samples.table[column])
        ids, id_lengths = flatten(samples.table[column.replace("labels", "input_ids")])
        judge.samples(Reason.LENGTHS_MISMATCH, id_lengths != lengths, lengths, "one a token")
        learned = labels != IGNORE
        top = (limits.num_labels if classes else limits.embedding_rows) or MOST
        reason = Reason.LABEL_OUT_OF_RANGE if classes else Reason.TOKEN_OUT_OF_VOCAB
        bad = learned & ((labels < 0) | (labels >= top))
        judge.values(reason, bad, lengths, labels, f"0 to {top - 1}, or {IGNORE}")
        if self.rules.labels_copy_tokens and len(ids) == len(labels):
            judge.values(Reason.MASK_MISALIGNED, learned & (labels != ids), lengths, labels, "its token's id")
        if self.rules.causal_shift:
            learned[(np.cumsum(lengths) - lengths)[lengths > 0]] = False  # position 0 is shifted away
            if column == "labels" and "position_ids" in samples.table.column_names:
                positions, _ = flatten(samples.table["position_ids"])
                # The first token of each text continues nothing, so that the collator ignores its label.
                learned[: len(positions)] &= positions[: len(learned)] != 0
        count = np.bincount(owners(lengths)[learned], minlength=len(lengths))
        reason = Reason.LABEL_ALL_IGNORED if classes else Reason.NO_SUPERVISED_TOKENS
        judge.samples(reason, count == 0, count, "at least one label")

    def _boxes(self, samples: Samples, findings: Findings) -> None:
        judge = _Judgement(samples, findings, "bbox")
        boxes, lengths = flatten(samples.table["bbox"])
        words, id_lengths = flatten(samples.table["word_ids"])
        judge.samples(Reason.LENGTHS_MISMATCH, id_lengths != lengths, lengths, "one a token")
        top = self.context.limits.box_max
        with np.errstate(invalid="ignore"):
            outside = ~((boxes >= 0) & (boxes <= top)).all(axis=1)  # also true of NaN
            inverted = (boxes[:, 2] < boxes[:, 0]) | (boxes[:, 3] < boxes[:, 1])
        judge.values(Reason.BBOX_OUT_OF_PAGE, outside, lengths, boxes, f"0 to {top:g}")
        judge.values(Reason.BBOX_INVERTED, inverted, lengths, boxes, "corners in order")
        if len(words) == len(boxes):
            nowhere = (words >= 0) & ~boxes.any(axis=1)
            judge.values(Reason.BBOX_ZERO_AREA, nowhere, lengths, boxes, "a box on the page")

    def _answers(self, samples: Samples, findings: Findings) -> None:
        start, end = (samples.table[f"{name}_positions"].to_numpy() for name in ("start", "end"))
        words, lengths = flatten(samples.table["word_ids"])
        first = np.cumsum(lengths) - lengths
        outside = (start < 0) | (end < start) | (end >= lengths)
        for places in (start, end):
            # The start token stands for no answer; any other place must be on a word.
            at = np.where(outside, 0, first + places)
            outside |= (places > 0) & (words[np.minimum(at, max(len(words) - 1, 0))] < 0)
        _Judgement(samples, findings, "start_positions").samples(
            Reason.ANSWER_INVALID, outside, start, "a span of words in the window"
        )

    def _classes(self, samples: Samples, findings: Findings) -> None:
        labels = samples.table["labels"].to_numpy()
        top = self.context.limits.num_labels or MOST
        judge = _Judgement(samples, findings, "labels")
        judge.samples(Reason.LABEL_OUT_OF_RANGE, (labels < 0) | (labels >= top), labels, f"0 to {top - 1}")


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Findings on one column of the samples. Nothing here is repaired or let through."""

    of: Samples
    findings: Findings
    column: str

    def samples(self, reason: Reason, bad: Mask, shown: Numbers, expected: str) -> None:
        """A finding for each bad sample; ``shown`` has one number a sample."""
        hits = np.flatnonzero(bad)
        self.findings.add(
            reason,
            Policy.QUARANTINE,
            self.column,
            self.of.ids[hits],
            found=[str(number) for number in shown[hits]],
            expected=expected,
        )

    def values(self, reason: Reason, bad: Mask, lengths: Int64s, values: Numbers, expected: str) -> None:
        """A finding for each sample with a bad value: the first one is shown."""
        if not bad.any():
            return
        hits = np.flatnonzero(bad)
        owner, first = np.unique(owners(lengths)[hits], return_index=True)
        hits = hits[first]
        places = hits - (np.cumsum(lengths) - lengths)[owner]
        self.findings.add(
            reason,
            Policy.QUARANTINE,
            self.column,
            self.of.ids[owner],
            paths=[f"[{place}]" for place in places],
            found=[str(value) for value in values[hits].tolist()],
            expected=expected,
        )


def without(samples: Samples, findings: Findings) -> Samples:
    """The samples of records that nothing was found against."""
    rejected = findings.rejected()
    if not len(rejected):
        return samples
    keep = ~np.isin(samples.ids, rejected)
    table = samples.table.filter(pa.array(keep))
    pages = samples.pages
    if pages is not None and "page_id" in table.column_names:
        import pyarrow.compute as pc

        pages = pages.filter(pc.is_in(pages["page_id"], value_set=table["page_id"].combine_chunks()))
    return Samples(table, samples.ids[keep], pages)
