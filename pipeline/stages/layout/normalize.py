"""Corners of a box from every way it can be written, and page coordinates to the numbers a model takes.

The rule: a coordinate is the decimal number as written, which is the shortest decimal that reads as its float64.
``truncate`` is ⌊1000 · x / side⌋ of those rationals, ``round`` the nearest whole number, halves to the even one. So
0.57 of a page is 570, although the float product may say 569.99….

Four ways, fastest first, all with the same result: one division where all numbers are whole; whole-number arithmetic
where they have at most six decimals; floats where the float result is far from a step; fractions for the rest, which
is about one of 10⁹ numbers with long decimals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from pipeline.batch import Int64s, Mask
from pipeline.schema.layout import BoxOrder

# Every way a box can be written becomes its two corners, in the unit and origin it was written in.


Float64s = npt.NDArray[np.float64]

ARITY: dict[BoxOrder, int | None] = {
    "xyxy": 4,
    "xywh": 4,
    "quad": 8,
    "rotated_xywh": 5,
    "polygon": None,
    "vertices": None,
}
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


# From page coordinates to the numbers a model takes, exactly.


Rounding = Literal["truncate", "round"]

SCALE = 1000
DECIMALS = 6
LARGEST = 1e9
"""Numbers from here on go the slow way: with six decimals they no longer have a shortest decimal of their own (15
digits), and 1000 · x · 10⁶ must fit 63 bits."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Coordinates as exact sums: ``offset + sign · (base + extra)``, float64 [n, k] each.

    Attributes:
        base: numbers as written.
        extra: the width or height of an xywh box; None for none.
        offset: the page box's corner, or the height under a bottom-left origin; None for none.
        sign: float64 [k], -1.0 for a flipped axis; None for none.
    """

    base: Float64s
    extra: Float64s | None = None
    offset: Float64s | None = None
    sign: Float64s | None = None

    def values(self) -> Float64s:
        """As floats, [n, k]."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.base if self.extra is None else self.base + self.extra
            if self.sign is not None:
                value = value * self.sign
            return value if self.offset is None else self.offset + value

    def rows(self, keep: Mask) -> Sums:
        """Some of the rows."""
        extra, offset = (None if part is None else part[keep] for part in (self.extra, self.offset))
        return Sums(self.base[keep], extra, offset, self.sign)

    def parts(self) -> list[Float64s]:
        """The numbers as written that the sums are made of."""
        return [part for part in (self.base, self.extra, self.offset) if part is not None]

    def exact(self, row: int, column: int) -> Fraction:
        """One coordinate as a rational number."""
        value = decimal(self.base[row, column])
        if self.extra is not None:
            value += decimal(self.extra[row, column])
        if self.sign is not None:
            value *= int(self.sign[column])
        return value if self.offset is None else value + decimal(self.offset[row, column])


def decimal(value: float) -> Fraction:
    """The number as written."""
    return Fraction(repr(float(value)))


def thousandths(sums: Sums, sides: Float64s, rounding: Rounding) -> Int64s:
    """1000 · coordinate / side as whole numbers, int64 [n, k]; ``sides`` [n, k] are > 0. Finite numbers only."""
    if (
        sums.extra is None
        and sums.offset is None
        and sums.sign is None
        and _whole(sums.base)
        and _whole(sides)
    ):
        # The quotient of two whole numbers is rounded correctly, and one that is no whole number lies farther from a
        # step than half a unit in the last place: the float is on the right side.
        scaled = SCALE * sums.base / sides
        return (np.floor(scaled) if rounding == "truncate" else np.rint(scaled)).astype(np.int64)
    short = _short(sums, sides)
    if short.all():
        return _by_integers(sums, sides, rounding)
    out = np.empty(sums.base.shape, np.int64)
    out[short] = _by_integers(sums.rows(short), sides[short], rounding)
    out[~short] = _by_floats(sums.rows(~short), sides[~short], rounding)
    return out


def _whole(numbers: Float64s) -> bool:
    """Whether all are whole numbers, small enough that 1000 times them is exact."""
    return bool((np.rint(numbers) == numbers).all() and (np.abs(numbers) < 2.0**31).all())


def _short(sums: Sums, sides: Float64s) -> Mask:
    """Rows (bool [n]) in which every number has at most ``DECIMALS`` decimals and is not too large."""
    fits = np.ones(len(sides), bool)
    scale = 10.0**DECIMALS
    for part in (*sums.parts(), sides):
        with np.errstate(over="ignore"):
            # Division is correctly rounded, so equality says that the shortest decimal has no further digits.
            digits = np.rint(part * scale) / scale == part
        fits &= (digits & (np.abs(part) < LARGEST)).all(axis=1)
    return fits


def _by_integers(sums: Sums, sides: Float64s, rounding: Rounding) -> Int64s:
    def whole(part: Float64s) -> Int64s:
        return np.rint(part * 10.0**DECIMALS).astype(np.int64)

    top = whole(sums.base)
    if sums.extra is not None:
        top += whole(sums.extra)
    if sums.sign is not None:
        top *= sums.sign.astype(np.int64)
    if sums.offset is not None:
        top += whole(sums.offset)
    top *= SCALE
    bottom = whole(sides)
    quotient: Int64s = top // bottom
    if rounding == "round":
        rest = 2 * (top - quotient * bottom)
        quotient += (rest > bottom) | ((rest == bottom) & (quotient % 2 == 1))
    return quotient


def _by_floats(sums: Sums, sides: Float64s, rounding: Rounding) -> Int64s:
    """Floats, and fractions where a float may be on the wrong side of a step."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = SCALE * sums.values() / sides
        size = sides + sum(np.abs(part) for part in sums.parts())
        doubt = 1e-9 + SCALE * 16 * np.finfo(np.float64).eps * size / sides
        if rounding == "truncate":
            out = np.floor(scaled)
            near = np.abs(scaled - np.rint(scaled)) <= doubt
        else:
            out = np.rint(scaled)
            near = np.abs(scaled - np.floor(scaled) - 0.5) <= doubt
        for row, column in np.argwhere(near).tolist():
            value = SCALE * sums.exact(row, column) / decimal(sides[row, column])
            out[row, column] = math.floor(value) if rounding == "truncate" else round(value)
    return np.clip(out, -(2.0**53), 2.0**53).astype(np.int64)
