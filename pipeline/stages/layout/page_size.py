"""The page each box stands on: its unit, its sides in that unit, and where its top-left corner is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.batch import Batch, Findings, Mask
from pipeline.errors import SchemaError
from pipeline.reasons import Policy, Reason
from pipeline.schema.layout import BoxUnit, Layout, UnitField

Float64s = npt.NDArray[np.float64]

WIDTH, HEIGHT, PAGE_BOX, UNIT = "@page_width", "@page_height", "@page_box", "@unit"

SHARES: dict[BoxUnit, float] = {"ratio": 1.0, "percent": 100.0, "norm1000": 1000.0}
"""Units that are shares of the page: the length of a side in them."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a batch.

    Attributes:
        units: name of each page's unit, "" where it is not known.
        sides: float64 [records, 2], width and height in that unit; 1 where they are not known.
        left, top, far: float64 [records], the page box's x0, y0 and y1 as written; 0, 0 and the page's height where
            there is none.
        stated: float64 [records, 2], width and height as stated, NaN where they are not.
        usable: bool [records], whether boxes can be placed.
    """

    units: npt.NDArray[np.str_]
    sides: Float64s
    left: Float64s
    top: Float64s
    far: Float64s
    stated: Float64s
    usable: Mask

    @property
    def aspect(self) -> Float64s:
        """float64 [records], length of one unit of y over one unit of x; 1 where the size is not stated."""
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = np.where(np.isfinite(self.stated), self.stated, 1.0) / self.sides
            ratio: Float64s = unit[:, 1] / unit[:, 0]
        return ratio


def check(layout: Layout) -> None:
    """Whether boxes of the declared unit can be placed at all.

    Raises:
        SchemaError: the page's size is needed and not declared.
    """
    unit, page = layout.boxes.unit, layout.page
    units = set(unit.values.values()) if isinstance(unit, UnitField) else {unit}
    has_size = page.box is not None or (page.width is not None and page.height is not None)
    has_size |= page.from_image
    turned = layout.boxes.order == "rotated_xywh"
    if not has_size and (turned or not units <= set(SHARES)):
        raise SchemaError(
            "the page's size is needed to place its boxes",
            where="layout: page",
            found="rotated boxes" if turned else f"boxes in {', '.join(sorted(units - set(SHARES)))}",
            expected="`width` and `height`, `box`, or `from_image`",
            remedy="name the fields of the page's size, or give them as numbers",
        )
    if turned and layout.boxes.origin == "bottom_left":
        raise SchemaError(
            "rotated boxes are read with the origin at the top left only",
            where="layout: boxes",
            found="origin: bottom_left",
            expected="origin: top_left",
        )


def pages(batch: Batch, layout: Layout, findings: Findings) -> Pages:
    """Read units and sizes; what cannot be is found."""
    units = _units(batch, layout, findings)
    stated, box, sound = _sizes(batch, layout, findings)
    sides = np.ones((len(batch), 2))
    measured = ~np.isin(units, ["", *SHARES])
    for share, side in SHARES.items():
        sides[units == share] = side
    placed = measured & sound & np.isfinite(stated).all(axis=1)
    sides[placed] = stated[placed]
    usable = (units != "") & sound & (placed | ~measured)
    corner = np.where(measured[:, None], box[:, :2], 0.0)  # shares are of the page box already
    far = np.where(measured, box[:, 3], sides[:, 1])
    return Pages(units, sides, corner[:, 0], corner[:, 1], far, stated, usable)


def _units(batch: Batch, layout: Layout, findings: Findings) -> npt.NDArray[np.str_]:
    unit = layout.boxes.unit
    if not isinstance(unit, UnitField):
        return np.full(len(batch), unit, dtype="<U8")
    written = batch.frame[UNIT]
    known = written.replace_strict(list(unit.values), list(unit.values.values()), default=None)
    unknown = (known.is_null() & written.is_not_null()).to_numpy()
    findings.add(
        Reason.VALUE_NOT_ALLOWED,
        Policy.QUARANTINE,
        UNIT,
        batch.ids[unknown],
        found=written.filter(pl.Series(unknown)).str.slice(0, 40).to_list(),
        expected=", ".join(unit.values),
    )
    return np.asarray(known.fill_null("").to_list(), dtype="<U8")


def _sizes(batch: Batch, layout: Layout, findings: Findings) -> tuple[Float64s, Float64s, Mask]:
    """Stated sizes, page boxes, and whether what is stated can be. A null is found by the cast already."""
    page = layout.page
    stated, box, read = _of_box(batch, page.box) if page.box is not None else _of_sides(batch, layout)
    named = [page.box] * 2 if page.box is not None else [page.width, page.height]
    with np.errstate(invalid="ignore"):
        fine = np.isfinite(stated) & (stated > 0)
    fine[:, [name is None for name in named]] = True
    bad = read & ~fine.all(axis=1)
    findings.add(
        Reason.PAGE_SIZE_INVALID,
        Policy.QUARANTINE,
        WIDTH if page.box is None else PAGE_BOX,
        batch.ids[bad],
        found=[f"{width:g} × {height:g}" for width, height in stated[bad].tolist()],
    )
    return stated, box, read & ~bad


def _of_sides(batch: Batch, layout: Layout) -> tuple[Float64s, Float64s, Mask]:
    """Sizes from the fields or numbers of ``width`` and ``height``."""
    n, page = len(batch), layout.page
    stated, read = np.full((n, 2), np.nan), np.ones(n, bool)
    for axis, (column, given) in enumerate(((WIDTH, page.width), (HEIGHT, page.height))):
        if isinstance(given, str) or page.from_image:
            stated[:, axis] = batch.frame[column].fill_null(np.nan).to_numpy()
            read &= batch.frame[column].is_not_null().to_numpy()
        elif given is not None:
            stated[:, axis] = given
    return stated, np.nan_to_num(np.concatenate([np.zeros((n, 2)), stated], axis=1)), read


def _of_box(batch: Batch, given: str | tuple[float, ...]) -> tuple[Float64s, Float64s, Mask]:
    """Sizes from the page box [x0, y0, x1, y1], a field or the same for all; a difference is rounded to nine
    decimals, so that it is the one of the decimals as written."""
    if isinstance(given, str):
        lists = batch.frame[PAGE_BOX]
        four = (lists.list.len() == 4).fill_null(False)
        box = np.full((len(batch), 4), np.nan)
        numbers = lists.filter(four).explode(empty_as_null=False, keep_nulls=False)
        box[four.to_numpy()] = numbers.fill_null(np.nan).to_numpy().reshape(-1, 4)
        read = lists.is_not_null().to_numpy()
    else:
        box, read = np.tile(np.array(given, np.float64), (len(batch), 1)), np.ones(len(batch), bool)
    with np.errstate(invalid="ignore", over="ignore"):
        stated = np.round(box[:, 2:] - box[:, :2], 9)
    return stated, np.nan_to_num(box), read
