"""From page coordinates to the numbers a model takes, exactly.

The rule: a coordinate is the decimal number as written, which is the shortest decimal that reads as its float64.
``truncate`` is ⌊1000 · x / side⌋ of those rationals, ``round`` the nearest whole number, halves to the even one. So
0.57 of a page is 570, although the float product may say 569.99….

Three ways, fastest first, all with the same result: whole-number arithmetic where all numbers have at most six
decimals; floats where the float result is far from a step; fractions for the rest (about one number in 10⁹ of those
with long decimals).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from pipeline.batch import Mask

Float64s = npt.NDArray[np.float64]
Rounding = Literal["truncate", "round"]

SCALE = 1000
DECIMALS = 6
LARGEST = 1e9
"""Numbers from here on go the slow way: with six decimals they no longer have a shortest decimal of their own (15
digits), and 1000 · x · 10⁶ must fit 63 bits."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Coordinates as exact sums: ``offset + sign · (base + extra)``, all arrays of one shape.

    Attributes:
        base: a number as written.
        extra: the width or height of an xywh box, else 0.
        offset: the page box's corner, or the height under a bottom-left origin, else 0.
        sign: 1.0, or -1.0 for a flipped axis.
    """

    base: Float64s
    extra: Float64s
    offset: Float64s
    sign: Float64s

    def values(self) -> Float64s:
        """As floats."""
        return self.offset + self.sign * (self.base + self.extra)

    def at(self, mask: Mask) -> Sums:
        """Some of the coordinates, flat."""
        return Sums(self.base[mask], self.extra[mask], self.offset[mask], self.sign[mask])

    def exact(self, at: int) -> Fraction:
        """One coordinate as a rational number."""
        inner = decimal(self.base[at]) + decimal(self.extra[at])
        return decimal(self.offset[at]) + int(self.sign[at]) * inner


def decimal(value: float) -> Fraction:
    """The number as written."""
    return Fraction(repr(float(value)))


def thousandths(sums: Sums, side: Float64s, rounding: Rounding) -> npt.NDArray[np.int64]:
    """1000 · coordinate / side as whole numbers; ``side`` > 0, of the shape of the sums. Finite numbers only."""
    short = _short(sums, side)
    out = np.empty(short.shape, np.int64)
    if short.any():
        out[short] = _by_integers(sums.at(short), side[short], rounding)
    if not short.all():
        out[~short] = _by_floats(sums.at(~short), side[~short], rounding)
    return out


def _short(sums: Sums, side: Float64s) -> Mask:
    """Where every number has at most ``DECIMALS`` decimals and is not too large."""
    fits = np.ones(sums.base.shape, bool)
    scale = 10.0**DECIMALS
    for part in (sums.base, sums.extra, sums.offset, side):
        with np.errstate(over="ignore"):
            # Division is correctly rounded, so equality says that the shortest decimal has no further digits.
            fits &= (np.rint(part * scale) / scale == part) & (np.abs(part) < LARGEST)
    return fits


def _by_integers(sums: Sums, side: Float64s, rounding: Rounding) -> npt.NDArray[np.int64]:
    def whole(part: Float64s) -> npt.NDArray[np.int64]:
        return np.rint(part * 10.0**DECIMALS).astype(np.int64)

    top = SCALE * (whole(sums.offset) + sums.sign.astype(np.int64) * (whole(sums.base) + whole(sums.extra)))
    bottom = whole(side)
    quotient: npt.NDArray[np.int64] = top // bottom
    if rounding == "round":
        rest = 2 * (top - quotient * bottom)
        quotient += (rest > bottom) | ((rest == bottom) & (quotient % 2 == 1))
    return quotient


def _by_floats(sums: Sums, side: Float64s, rounding: Rounding) -> npt.NDArray[np.int64]:
    """Floats, and fractions where a float may be on the wrong side of a step."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = SCALE * sums.values() / side
        size = np.abs(sums.base) + np.abs(sums.extra) + np.abs(sums.offset) + side
        doubt = 1e-9 + SCALE * 16 * np.finfo(np.float64).eps * size / side
        if rounding == "truncate":
            out = np.floor(scaled)
            near = np.abs(scaled - np.rint(scaled)) <= doubt
        else:
            out = np.rint(scaled)
            near = np.abs(scaled - np.floor(scaled) - 0.5) <= doubt
        for at in np.flatnonzero(near).tolist():
            value = SCALE * sums.exact(at) / decimal(side[at])
            out[at] = math.floor(value) if rounding == "truncate" else round(value)
    return np.clip(out, -(2.0**53), 2.0**53).astype(np.int64)
