"""Boxes as written: the right count of numbers, all of them finite, made corners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.arrays import elements
from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.reasons import Policy, Reason
from pipeline.schema.layout import BoxOrder
from pipeline.stages.layout.corners import Corners, corners, expected_arity, wrong_arity
from pipeline.stages.layout.page import Pages
from pipeline.stages.layout.ragged import Ragged, indexed, per_record, shown_hits
from pipeline.stages.layout.words import BOXES, INDEX

MOST_NUMBERS = 8
"""Numbers of a box shown in a finding."""


@dataclass(frozen=True, slots=True)
class WrittenBoxes:
    """The boxes of a batch laid flat, with the place of each one's word in the record as read."""

    batch: Batch
    lists: Ragged
    index: Int64s

    @classmethod
    def of(cls, batch: Batch) -> WrittenBoxes:
        """Lay the boxes of a batch flat."""
        index = batch.frame[INDEX].explode(empty_as_null=False, keep_nulls=False).to_numpy()
        return cls(batch, Ragged.of(batch.frame[BOXES]), index)

    def report(
        self, reason: Reason, policy: Policy, hits: Int64s, found: list[str], expected: str | list[str],
        findings: Findings,
    ) -> None:  # fmt: skip
        """Findings on the boxes at these positions."""
        findings.add(
            reason, policy, BOXES, self.batch.ids[self.lists.owner[hits]], paths=indexed(self.index[hits]),
            found=found, expected=expected,
        )  # fmt: skip

    def shown(self, hits: Int64s) -> list[str]:
        """Boxes as written."""
        shown = []
        for box in self.lists.values[pl.Series(hits)].to_list():
            numbers = ["null" if number is None else f"{number:g}" for number in (box or [])[:MOST_NUMBERS]]
            more = ", …" if len(box or []) > MOST_NUMBERS else ""
            shown.append("[" + ", ".join(numbers) + more + "]")
        return shown


def read_corners(
    boxes: WrittenBoxes, order: BoxOrder, page: Pages, findings: Findings
) -> tuple[Corners, Mask]:
    """Corners of the boxes, and which of them (bool [n]) have any."""
    values, owner = boxes.lists.values, boxes.lists.owner
    counts = values.list.len().fill_null(0).cast(pl.Int64).to_numpy()
    numbers = elements(values).cast(pl.Float64)
    flat = numbers.fill_null(np.nan).to_numpy()
    wrong = wrong_arity(order, counts)
    hits = shown_hits(owner, wrong)
    found = [str(count) for count in counts[hits].tolist()]
    boxes.report(Reason.BBOX_ARITY, Policy.QUARANTINE, hits, found, expected_arity(order), findings)
    finite = np.isfinite(flat)
    broken = np.zeros(len(counts), bool) if finite.all() else per_record(counts, ~finite) > 0
    hits = shown_hits(owner, broken)
    boxes.report(Reason.BBOX_NOT_FINITE, Policy.QUARANTINE, hits, boxes.shown(hits), "", findings)
    usable = ~wrong & ~broken
    return corners(order, flat, counts, usable, page.aspect[owner]), usable
