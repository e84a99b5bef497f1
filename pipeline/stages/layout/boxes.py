"""Boxes: any declared way of writing them becomes the numbers the model family takes, or the page is rejected;
what may be clipped at the page's edge.

The order of work: count of numbers, finite numbers, corners, origin and page corner, inversion, area, the page's
edges, the geometry of the whole page, then exact normalization (``scale.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.arrow_lists import elements
from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.reasons import Policy, Reason
from pipeline.schema.layout import BoxOrder, Layout
from pipeline.schema.model import LayoutSchema
from pipeline.stages.context import Context
from pipeline.stages.layout.geometry import shape_of, suspicions
from pipeline.stages.layout.labels import LabelNames, orphaned
from pipeline.stages.layout.normalize import Corners, Sums, corners, expected_arity, thousandths, wrong_arity
from pipeline.stages.layout.page_size import Pages, check, pages
from pipeline.stages.layout.ragged import (
    BOXES,
    INDEX,
    LABELS,
    WORDS,
    Ragged,
    box_array,
    indexed,
    nest,
    per_record,
    shown_hits,
)
from pipeline.stages.layout.words import label_ids

# The page's edges: what lies beyond them, and what may be clipped.


Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Overhang:
    """Boxes (bool [n]) beyond the page by more than the tolerance, and within it."""

    beyond: Mask
    clipped: Mask


def overhang(boxes: Float64s, sides: Float64s, tolerance: Float64s, usable: Mask) -> Overhang:
    """Hold boxes against their page.

    A box wholly outside the page is beyond it, however near: clipped, it would be a made-up box without area.

    Args:
        boxes: float64 [n, 4], corners in order, from the page's top-left corner.
        sides: float64 [n, 4], width, height, width, height.
        tolerance: float64 [n, 4], in the unit of the boxes.
        usable: bool [n], boxes to judge.
    """
    if ((boxes >= 0) & (boxes <= sides)).all():
        nowhere = np.zeros(len(boxes), bool)
        return Overhang(nowhere, nowhere)
    with np.errstate(over="ignore", invalid="ignore"):
        before, after = -boxes, boxes - sides
        over = np.maximum(before, after)
        # A thousandth of a thousandth of the side forgives the last bits of a sum of floats.
        beyond = (over > tolerance + 1e-6 * sides).any(axis=1)
        area = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        inside = np.clip(boxes, 0, sides)
        left = (inside[:, 2] > inside[:, 0]) & (inside[:, 3] > inside[:, 1])
        past = (over > 1e-12 * sides).any(axis=1)
    beyond = usable & (beyond | (area & ~left))
    return Overhang(beyond, usable & past & ~beyond)


# Boxes as written: the right count of numbers, all of them finite, made corners.


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
        self,
        reason: Reason,
        policy: Policy,
        hits: Int64s,
        found: list[str],
        expected: str | list[str],
        findings: Findings,
    ) -> None:
        """Findings on the boxes at these positions."""
        findings.add(
            reason,
            policy,
            BOXES,
            self.batch.ids[self.lists.owner[hits]],
            paths=indexed(self.index[hits]),
            found=found,
            expected=expected,
        )

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


# Boxes: any declared way of writing them becomes the numbers the model family takes, or the page is
# rejected.


Numbers = npt.NDArray[np.int16] | npt.NDArray[np.float32]
FLIPPED = np.array([1.0, -1.0, 1.0, -1.0])


@dataclass(slots=True)
class BoxStage:
    """Judge and normalize boxes; ``@boxes`` becomes List(Array(Int16 or Float32, 4))."""

    context: Context[LayoutSchema]
    name: str = "boxes"
    _layout: Layout = field(init=False)
    _names: LabelNames | None = field(init=False, default=None)
    _floats: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        layout = self.context.schema.layout
        check(layout)
        self._layout = layout
        self._names = LabelNames.of(layout.labels) if layout.labels is not None else None
        self._floats = self.context.limits.float_boxes

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        page = pages(batch, self._layout, findings)
        boxes = WrittenBoxes.of(batch)
        corners, usable = read_corners(boxes, self._layout.boxes.order, page, findings)
        sums, sides = self._placed(corners, boxes.lists.owner, page)
        judged = _Judged(boxes, sums.values(), sides, usable & page.usable[boxes.lists.owner])
        ordered = self._inverted(judged, findings)
        keep = self._areas(judged, ordered, findings)
        hang = overhang(ordered, sides, self._tolerance(boxes.lists.owner, page, sides), judged.usable & keep)
        self._edges(judged, hang, findings)
        if self._layout.geometry == "judge":
            self._geometry(judged, keep, page, hang, findings)
        numbers = self._normalized(sums, sides, judged)
        return self._framed(batch, boxes.lists, numbers, keep), findings

    def _placed(self, written: Corners, owner: Int64s, page: Pages) -> tuple[Sums, Float64s]:
        """Coordinates from the page's top-left corner, as exact sums; and each box's sides [n, 4]."""
        sides = page.sides[owner][:, [0, 1, 0, 1]]
        base, extra = written.base, written.extra
        if self._layout.boxes.origin == "bottom_left":
            # The upper edge is the larger y: y0 and y1 change places, and count from the page's top.
            flipped = [0, 3, 2, 1]
            base, extra = base[:, flipped], None if extra is None else extra[:, flipped]
            left, far = page.left[owner], page.far[owner]
            return Sums(base, extra, np.stack([-left, far, -left, far], axis=1), FLIPPED), sides
        offset = None
        if page.left.any() or page.top.any():
            offset = -np.stack([page.left, page.top] * 2, axis=1)[owner]
        return Sums(base, extra, offset), sides

    def _inverted(self, judged: _Judged, findings: Findings) -> Float64s:
        """Boxes with their corners in order; those that were not are found."""
        boxes = judged.boxes
        inverted = (boxes[:, 2] < boxes[:, 0]) | (boxes[:, 3] < boxes[:, 1])
        if not inverted.any():
            return boxes
        policy = self.context.schema.policy(Reason.BBOX_INVERTED)
        judged.report(Reason.BBOX_INVERTED, policy, inverted & judged.usable, findings)
        return in_order(boxes)

    def _areas(self, judged: _Judged, ordered: Float64s, findings: Findings) -> Mask:
        """Words to keep: all, or those whose box has an area where the schema says to drop the others."""
        flat = judged.usable & ((ordered[:, 2] == ordered[:, 0]) | (ordered[:, 3] == ordered[:, 1]))
        policy = self.context.schema.policy(Reason.BBOX_ZERO_AREA)
        keep: Mask = np.ones(len(flat), bool)
        if not flat.any():
            return keep
        if policy is not Policy.REPAIR:
            judged.report(Reason.BBOX_ZERO_AREA, policy, flat, findings)
            return keep
        keep = ~flat
        batch, lengths = judged.written.batch, judged.lists.lengths
        ids = label_ids(batch.frame, self._names)
        broken = orphaned(self._names, ids, lengths, keep)[judged.lists.owner]
        judged.report(Reason.BBOX_ZERO_AREA, policy, flat & ~broken, findings)
        judged.report(Reason.BBOX_ZERO_AREA, Policy.QUARANTINE, flat & broken, findings)
        empty = (lengths > 0) & (per_record(lengths, keep) == 0)
        findings.add(Reason.DOC_EMPTY, Policy.QUARANTINE, WORDS, batch.ids[empty])
        return keep

    def _tolerance(self, owner: Int64s, page: Pages, sides: Float64s) -> Float64s:
        """How far a coordinate may lie beyond the page, in the unit of its box: [n, 4].

        Pixels under points, inches and thousandths count in that unit; under ratio and percent they are shares of
        the stated page, and nothing where it is not stated."""
        clip = self._layout.clip_tolerance
        out = sides * ((clip.percent or 0.0) / 100)
        if clip.pixels is not None:
            share = np.isin(page.units, ["ratio", "percent"])[:, None]
            stated = np.where(np.isfinite(page.stated), page.stated, np.inf)
            pixels = np.where(share, clip.pixels * page.sides / stated, clip.pixels)
            out = np.maximum(out, pixels[owner][:, [0, 1, 0, 1]])
        return out

    def _edges(self, judged: _Judged, hang: Overhang, findings: Findings) -> None:
        policy = self.context.schema.policy(Reason.BBOX_CLIPPED)
        judged.report(Reason.BBOX_OUT_OF_PAGE, Policy.QUARANTINE, hang.beyond, findings)
        judged.report(Reason.BBOX_CLIPPED, policy, hang.clipped, findings)

    def _geometry(self, judged: _Judged, keep: Mask, page: Pages, hang: Overhang, findings: Findings) -> None:
        """Judge pages all of whose boxes could be read."""
        lengths = judged.lists.lengths
        whole = (per_record(lengths, judged.usable) == lengths) & (per_record(lengths, keep) > 0)
        records = np.flatnonzero(whole)
        if not len(records):
            return
        use = whole[judged.lists.owner] & keep
        kept = per_record(lengths, keep)[records]
        beyond = per_record(lengths, hang.beyond)[records]
        order = self._layout.boxes.order if self._layout.boxes.origin == "top_left" else ""
        shape = shape_of(judged.boxes[use], kept, page.sides[records], page.units[records], beyond, order)
        found = suspicions(shape)
        if self.context.schema.policy(Reason.BBOX_INVERTED) is Policy.REPAIR:
            found = [s for s in found if not shape.inverted_y[s.page] and not shape.inverted_x[s.page]]
        findings.add(
            Reason.BBOX_UNIT_SUSPECT,
            self.context.schema.policy(Reason.BBOX_UNIT_SUSPECT),
            BOXES,
            judged.written.batch.ids[records[np.array([s.page for s in found], np.int64)]],
            found=[s.found for s in found],
            expected=[s.expected for s in found],
        )

    def _normalized(self, sums: Sums, sides: Float64s, judged: _Judged) -> Numbers:
        """int16 thousandths, or float32 shares, corners in order, within the page; zeros where unusable."""
        fine = judged.usable
        if self._floats:
            with np.errstate(over="ignore", invalid="ignore"):
                numbers = np.where(fine[:, None], np.clip(sums.values() / sides, 0, 1), 0)
            result = numbers.astype(np.float32)
        else:
            whole = np.zeros(sides.shape, np.int64)
            if fine.all():
                whole = thousandths(sums, sides, self._layout.rounding)
            else:
                whole[fine] = thousandths(sums.rows(fine), sides[fine], self._layout.rounding)
            result = np.clip(whole, 0, 1000).astype(np.int16)
        return in_order(result) if (result[:, 2:] < result[:, :2]).any() else result

    def _framed(self, batch: Batch, boxes: Ragged, numbers: Numbers, keep: Mask) -> Batch:
        lengths: Int64s = per_record(boxes.lengths, keep)
        columns = [nest(box_array(numbers[keep]), lengths, boxes.present).alias(BOXES)]
        if not keep.all():
            columns += [
                Ragged.of(batch.frame[name]).of_elements(keep).nested().alias(name)
                for name in (WORDS, LABELS, INDEX)
                if name in batch.frame.columns
            ]
        return batch.with_frame(batch.frame.with_columns(columns))


@dataclass(frozen=True, slots=True)
class _Judged:
    """Boxes of a batch while they are judged: float64 [n, 4] from the page's top-left corner, in the page's unit."""

    written: WrittenBoxes
    boxes: Float64s
    sides: Float64s
    usable: Mask

    @property
    def lists(self) -> Ragged:
        return self.written.lists

    def report(self, reason: Reason, policy: Policy, hit: Mask, findings: Findings) -> None:
        """One rule's hits, with the boxes as written."""
        if not hit.any():
            return
        hits = shown_hits(self.lists.owner, hit)
        page = [f"{side[0]:g} × {side[1]:g}" for side in self.sides[hits].tolist()]
        expected = page if reason is Reason.BBOX_OUT_OF_PAGE else ""
        self.written.report(reason, policy, hits, self.written.shown(hits), expected, findings)


def in_order(boxes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Boxes [n, 4] with the smaller corner first."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], axis=1)
