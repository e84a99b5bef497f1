"""The page's edges: what lies beyond them, and what may be clipped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.batch import Mask

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
