"""Every way a box can be written becomes its two corners, in the unit and origin it was written in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.batch import Int64s, Mask
from pipeline.schema.layout import BoxOrder

Float64s = npt.NDArray[np.float64]

ARITY: dict[BoxOrder, int | None] = {
    "xyxy": 4, "xywh": 4, "quad": 8, "rotated_xywh": 5, "polygon": None, "vertices": None,
}  # fmt: skip
"""Numbers of one box; None: an even count from four."""


@dataclass(frozen=True, slots=True)
class Corners:
    """Boxes as ``base + extra``, each float64 [n, 4] in the order x0, y0, x1, y1.

    ``extra`` is what must be added to a number as written (a width, a height), so that the sum can be taken
    exactly later; None where nothing is. Rows of boxes that could not be read are zeros.
    """

    base: Float64s
    extra: Float64s | None = None


def wrong_arity(order: BoxOrder, counts: Int64s) -> Mask:
    """Boxes (bool [n]) with a count of numbers that this order does not have."""
    arity = ARITY[order]
    wrong: Mask = counts != arity if arity is not None else (counts < 4) | (counts % 2 == 1)
    return wrong


def expected_arity(order: BoxOrder) -> str:
    """The count of numbers this order has, in words."""
    arity = ARITY[order]
    return str(arity) if arity is not None else "an even count from 4"


def corners(order: BoxOrder, numbers: Float64s, counts: Int64s, usable: Mask, aspect: Float64s) -> Corners:
    """Corners of the usable boxes.

    Args:
        order: how boxes are written.
        numbers: float64 [sum of counts], all boxes end to end.
        counts: int64 [n], numbers of each box.
        usable: bool [n], boxes of the right count with finite numbers.
        aspect: float64 [n], length of one unit of y over one unit of x; needed to turn a box whose sides are
            measured in shares of two different sides.
    """
    if usable.all() and order == "xyxy":
        return Corners(numbers.reshape(-1, 4))
    base, extra = np.zeros((len(counts), 4)), None
    kept = numbers[np.repeat(usable, counts)]
    if order == "xyxy":
        base[usable] = kept.reshape(-1, 4)
    elif order in ("xywh", "rotated_xywh"):
        box = kept.reshape(-1, 4 if order == "xywh" else 5)
        base[usable] = box[:, [0, 1, 0, 1]]
        extra = np.zeros((len(counts), 4))
        extra[usable] = _sized(box) if order == "xywh" else _turned(box, aspect[usable])
    elif len(kept):
        base[usable] = _envelope(kept, counts[usable])
    return Corners(base, extra)


def _sized(box: Float64s) -> Float64s:
    """What must be added to x, y, x, y: nothing, nothing, width, height."""
    out = np.zeros((len(box), 4))
    out[:, 2:] = box[:, 2:]
    return out


def _envelope(numbers: Float64s, counts: Int64s) -> Float64s:
    """Smallest upright box around each polygon, [n, 4]."""
    starts = (np.cumsum(counts) - counts) // 2
    x, y = numbers[0::2], numbers[1::2]
    low, high = np.minimum.reduceat, np.maximum.reduceat
    return np.stack([low(x, starts), low(y, starts), high(x, starts), high(y, starts)], axis=1)


def _turned(box: Float64s, aspect: Float64s) -> Float64s:
    """Envelope of a box turned clockwise (y down) about its top-left corner, relative to that corner, [n, 4].

    A box that is not turned keeps its width and height as written; so does one without area or with a negative side,
    that it may be found.
    """
    width, height, degrees = box[:, 2], box[:, 3], np.mod(box[:, 4], 360.0)
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    for quarter, (exact_cos, exact_sin) in enumerate(((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))):
        at = degrees == 90.0 * quarter
        cos[at], sin[at] = exact_cos, exact_sin
    nothing = np.zeros(len(box))
    along_x, along_y = width * cos, width * sin / aspect
    across_x, across_y = -height * aspect * sin, height * cos
    x = np.stack([nothing, along_x, across_x, along_x + across_x])
    y = np.stack([nothing, along_y, across_y, along_y + across_y])
    out = np.stack([x.min(0), y.min(0), x.max(0), y.max(0)], axis=1)
    broken = (width <= 0) | (height <= 0)
    out[broken] = np.stack([nothing, nothing, width, height], axis=1)[broken]
    return out
