"""Certify: judge the final ids, masks, labels and boxes of every sample against the target model.

This is the last look before the shard: it does not trust the stages before it, and knows nothing but the columns of
the sample and the limits of the model. A record any of whose samples is bad is rejected whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import Int64s, flat, owners
from pipeline.batch import Findings, Mask, Samples
from pipeline.reasons import Policy, Reason
from pipeline.shards.arrow import IGNORE
from pipeline.stages.context import Context

Numbers = npt.NDArray[np.integer]


@dataclass(slots=True)
class Certify:
    """The judgement of final samples, as a stage."""

    context: Context
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
        if "bbox" in names:
            self._boxes(samples, findings)
        if "labels" in names and pa.types.is_integer(samples.table.schema.field("labels").type):
            self._classes(samples, findings)
        return samples, findings

    def _tokens(self, samples: Samples, findings: Findings) -> None:
        limits, kind = self.context.limits, self.context.schema.kind
        ids, lengths = flat(samples.table["input_ids"])
        mask, mask_lengths = flat(samples.table["attention_mask"])
        rows = (limits.embedding_rows if limits else 0) or 2**31
        self._values(findings, samples, lengths, (ids < 0) | (ids >= rows), Reason.TOKEN_OUT_OF_VOCAB,
                     "input_ids", ids, f"0 to {rows - 1}")  # fmt: skip
        # A causal model shifts labels by one: a single token has nothing to predict.
        least = 1 if kind == "table" else 2
        self._samples(findings, samples, lengths < least, Reason.SEQUENCE_TOO_SHORT, "input_ids",
                      lambda i: str(lengths[i]), str(least))  # fmt: skip
        longest = limits.max_tokens if limits else None
        if longest is not None:
            self._samples(findings, samples, lengths > longest, Reason.TOO_LONG_FOR_TARGET, "input_ids",
                          lambda i: str(lengths[i]), str(longest))  # fmt: skip
        self._samples(findings, samples, mask_lengths != lengths, Reason.LENGTHS_MISMATCH, "attention_mask",
                      lambda i: f"{lengths[i]} input_ids, {mask_lengths[i]} attention_mask", "equal lengths")  # fmt: skip
        attended = np.bincount(owners(mask_lengths)[mask != 0], minlength=len(lengths))
        self._samples(findings, samples, attended == 0, Reason.ATTENTION_EMPTY, "attention_mask",
                      lambda i: "all zero", "at least one 1")  # fmt: skip
        self._values(findings, samples, mask_lengths, (mask != 0) & (mask != 1), Reason.VALUE_OUT_OF_RANGE,
                     "attention_mask", mask, "0 or 1", policy=Policy.QUARANTINE)  # fmt: skip

    def _labels(self, samples: Samples, column: str, findings: Findings) -> None:
        limits, kind = self.context.limits, self.context.schema.kind
        labels, lengths = flat(samples.table[column])
        ids, id_lengths = flat(samples.table[column.replace("labels", "input_ids")])
        self._samples(findings, samples, id_lengths != lengths, Reason.LENGTHS_MISMATCH, column,
                      lambda i: f"{id_lengths[i]} input_ids, {lengths[i]} labels", "equal lengths")  # fmt: skip
        learned = labels != IGNORE
        layout = kind == "layout"
        top = ((limits.num_labels if layout else limits.embedding_rows) if limits else 0) or 2**31
        bad = learned & ((labels < 0) | (labels >= top))
        self._values(findings, samples, lengths, bad, Reason.LABEL_OUT_OF_RANGE if layout else
                     Reason.TOKEN_OUT_OF_VOCAB, column, labels, f"0 to {top - 1}, or {IGNORE}")  # fmt: skip
        if not layout:
            learned = learned.copy()
            learned[(np.cumsum(lengths) - lengths)[lengths > 0]] = False  # position 0 is shifted away
            if kind == "chat" and len(ids) == len(labels):
                self._values(findings, samples, lengths, (labels != IGNORE) & (labels != ids),
                             Reason.MASK_MISALIGNED, column, labels, "the token's own id")  # fmt: skip
        count = np.bincount(owners(lengths)[learned], minlength=len(lengths))
        reason = Reason.LABEL_ALL_IGNORED if layout else Reason.NO_SUPERVISED_TOKENS
        self._samples(findings, samples, count == 0, reason, column, lambda i: "", "at least one label")

    def _boxes(self, samples: Samples, findings: Findings) -> None:
        limits = self.context.limits
        boxes, lengths = flat(samples.table["bbox"])
        _, id_lengths = flat(samples.table["input_ids"])
        words, _ = flat(samples.table["word_ids"])
        self._samples(findings, samples, id_lengths != lengths, Reason.LENGTHS_MISMATCH, "bbox",
                      lambda i: f"{id_lengths[i]} input_ids, {lengths[i]} boxes", "equal lengths")  # fmt: skip
        top = limits.box_max if limits else 1000
        with np.errstate(invalid="ignore"):
            outside = ~((boxes >= 0) & (boxes <= top)).all(axis=1)  # also true of NaN
        shown = np.array([str(box) for box in boxes[outside].tolist()], dtype=object)
        self._values(findings, samples, lengths, outside, Reason.BBOX_OUT_OF_PAGE, "bbox", shown,
                     f"0 to {top:g}", shown_only=True)  # fmt: skip
        inverted = (boxes[:, 2] < boxes[:, 0]) | (boxes[:, 3] < boxes[:, 1])
        shown = np.array([str(box) for box in boxes[inverted].tolist()], dtype=object)
        self._values(findings, samples, lengths, inverted, Reason.BBOX_INVERTED, "bbox", shown, "corners in order",
                     shown_only=True, policy=Policy.QUARANTINE)  # fmt: skip
        if len(words) == len(boxes):
            nowhere = (words >= 0) & ~boxes.any(axis=1)
            self._values(findings, samples, lengths, nowhere, Reason.BBOX_ZERO_AREA, "bbox",
                         np.full(int(nowhere.sum()), "[0, 0, 0, 0]", dtype=object), "a box on the page",
                         shown_only=True, policy=Policy.QUARANTINE)  # fmt: skip

    def _classes(self, samples: Samples, findings: Findings) -> None:
        labels = samples.table["labels"].to_numpy()
        top = (self.context.limits.num_labels if self.context.limits else None) or 2**31
        self._samples(findings, samples, (labels < 0) | (labels >= top), Reason.LABEL_OUT_OF_RANGE, "labels",
                      lambda i: str(labels[i]), f"0 to {top - 1}")  # fmt: skip

    def _samples(
        self,
        findings: Findings,
        samples: Samples,
        bad: Mask,
        reason: Reason,
        column: str,
        shows: Callable[[int], str],
        expected: str,
    ) -> None:
        """A finding for each bad sample."""
        hits = np.flatnonzero(bad)
        findings.add(
            reason, Policy.QUARANTINE, column, samples.ids[hits],
            found=[shows(int(i)) for i in hits], expected=expected,
        )  # fmt: skip

    def _values(
        self,
        findings: Findings,
        samples: Samples,
        lengths: Int64s,
        bad: Mask,
        reason: Reason,
        column: str,
        values: npt.NDArray[np.generic],
        expected: str,
        *,
        shown_only: bool = False,
        policy: Policy = Policy.QUARANTINE,
    ) -> None:
        """A finding for each sample with a bad value: the first one is shown."""
        if not bad.any():
            return
        hits = np.flatnonzero(bad)
        owner, first = np.unique(owners(lengths)[hits], return_index=True)
        starts = np.cumsum(lengths) - lengths
        shown = values[first] if shown_only else values[hits[first]]
        findings.add(
            reason, policy, column, samples.ids[owner],
            paths=[f"[{place}]" for place in (hits[first] - starts[owner]).tolist()],
            found=[str(value) for value in shown], expected=expected,
        )  # fmt: skip


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
