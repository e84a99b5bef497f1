"""Judges of a whole page: coordinates that are legal numbers and cannot be right. They name the suspected cause.

Each judge holds two things against each other that honest pages never combine, so that short, sparse and unusual
pages pass; ``benchmarks/geometry_alarms.py`` measures the false alarms on real documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.arrow_lists import owners
from pipeline.batch import Int64s, Mask

Float64s = npt.NDArray[np.float64]

TINY_OF_HEIGHT, TINY_OF_WIDTH = 0.005, 0.0075
"""Height of a line of text as a share of the page's height and width, below which a page in one corner of the paper
is doubted: 4 point on a letter page."""
MANY = 20
"""Boxes from which the size of a page's text is known."""
FLAT = 3.5
"""Lines this low, in pixels, points or thousandths, are no text; in percent they are."""
FEWEST = 3
"""Boxes below which a page says too little to be doubted, save for the surest judges."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the judges know of each page; float64 or int64 [pages].

    ``beyond`` counts boxes beyond the page by more than the tolerance; ``left, top, right, bottom`` bound all boxes,
    from the page's top-left corner; ``height`` is the median height of a box; ``upward, downward`` count the steps
    from word to word that move to another line; ``inverted_x, inverted_y`` count boxes; ``as_corners`` counts xywh
    boxes that would be sound as xyxy, and ``as_sizes`` xyxy boxes that would fit the page as xywh.
    """

    count: Int64s
    left: Float64s
    top: Float64s
    right: Float64s
    bottom: Float64s
    height: Float64s
    upward: Int64s
    downward: Int64s
    inverted_x: Int64s
    inverted_y: Int64s
    as_corners: Int64s
    as_sizes: Int64s
    width_of_page: Float64s
    height_of_page: Float64s
    units: npt.NDArray[np.str_]
    beyond: Int64s


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A page and the suspected cause."""

    page: int
    found: str
    expected: str


def shape_of(
    boxes: Float64s, lengths: Int64s, sides: Float64s, units: npt.NDArray[np.str_], beyond: Int64s, order: str
) -> Shape:
    """Measure pages.

    Args:
        boxes: float64 [sum of lengths, 4], corners in the page's unit, finite, not sorted.
        lengths: int64 [pages], all > 0.
        sides: float64 [pages, 2].
        units: [pages].
        beyond: int64 [pages], boxes beyond the page by more than the tolerance.
        order: how the boxes are written.
    """
    starts = np.cumsum(lengths) - lengths
    x0, y0, x1, y1 = boxes.T
    owner = owners(lengths)

    def count(hits: Mask) -> Int64s:
        return np.add.reduceat(hits.astype(np.int64), starts)

    height = np.abs(y1 - y0)
    middle = _median(height, owner, starts, lengths)
    centre = (y0 + y1) / 2
    step = np.zeros(len(centre))
    step[1:] = np.where(owner[1:] == owner[:-1], centre[1:] - centre[:-1], 0.0)
    another_line = np.abs(step) > 0.7 * middle[owner]
    corner_like, size_like = np.zeros(len(x0), bool), np.zeros(len(x0), bool)
    if order == "xywh":
        corner_like = (x1 - x0 > x0) & (y1 - y0 > y0) & (x0 > 0) & (y0 > 0)
    elif order == "xyxy":
        width_of, height_of = sides[owner].T
        size_like = (x0 + x1 <= width_of) & (y0 + y1 <= height_of) & (x1 > 0) & (y1 > 0)
    return Shape(
        count=lengths,
        left=np.minimum.reduceat(np.minimum(x0, x1), starts),
        top=np.minimum.reduceat(np.minimum(y0, y1), starts),
        right=np.maximum.reduceat(np.maximum(x0, x1), starts),
        bottom=np.maximum.reduceat(np.maximum(y0, y1), starts),
        height=middle,
        upward=count(another_line & (step < 0)),
        downward=count(another_line & (step > 0)),
        inverted_x=count(x1 < x0),
        inverted_y=count(y1 < y0),
        as_corners=count(corner_like),
        as_sizes=count(size_like),
        width_of_page=sides[:, 0],
        height_of_page=sides[:, 1],
        units=units,
        beyond=beyond,
    )


def suspicions(shape: Shape) -> list[Suspicion]:
    """Pages that cannot be right, each with its first suspected cause, in the order of the pages."""
    taken = np.zeros(len(shape.count), bool)
    found: list[Suspicion] = []
    for judge, cause, expected in _JUDGES:
        with np.errstate(invalid="ignore", over="ignore"):
            hits = judge(shape) & ~taken
        taken |= hits
        for page in np.flatnonzero(hits).tolist():
            reach = f"boxes reach to {shape.right[page]:g}, {shape.bottom[page]:g}"
            of = f"page {shape.width_of_page[page]:g} × {shape.height_of_page[page]:g} ({shape.units[page]})"
            found.append(Suspicion(page, f"{cause}: {reach} of a {of}", expected))
    return sorted(found, key=lambda suspicion: suspicion.page)


def ratios(shape: Shape) -> Mask:
    """All coordinates are 0 to 1 where the page is much larger than 1."""
    smallest = np.minimum(shape.width_of_page, shape.height_of_page)
    reach = np.maximum(shape.right, shape.bottom)
    return (smallest > 20) & (reach <= 1) & (reach > 0) & (np.minimum(shape.left, shape.top) >= 0)


def percents(shape: Shape) -> Mask:
    """All coordinates are 0 to 100 on a far larger page, and lines are too low for text."""
    smallest = np.minimum(shape.width_of_page, shape.height_of_page)
    reach = np.maximum(shape.right, shape.bottom)
    within = (reach <= 100.5) & (reach > 20) & (np.minimum(shape.left, shape.top) >= 0)
    return (smallest >= 400) & within & (shape.height <= FLAT) & (shape.count >= FEWEST)


def corner_order(shape: Shape) -> Mask:
    """Boxes written as corners read as x, y, width, height: every box is wider than it is far from the left, and
    higher than it is far from the top."""
    hits: Mask = (shape.as_corners == shape.count) & (shape.count >= FEWEST)
    return hits


def size_order(shape: Shape) -> Mask:
    """Boxes written as x, y, width, height read as corners: some are inverted, and all would fit as sizes."""
    inverted = (shape.inverted_x > 0) & (shape.inverted_y > 0)
    hits: Mask = inverted & (shape.as_sizes == shape.count)
    return hits


def upside_down_corners(shape: Shape) -> Mask:
    """Every box has its y corners in the wrong order and its x corners right."""
    hits: Mask = (shape.inverted_y == shape.count) & (shape.inverted_x == 0)
    return hits


def swapped_sides(shape: Shape) -> Mask:
    """Beyond the page, and within it when width and height change places."""
    fits = (shape.right <= shape.height_of_page) & (shape.bottom <= shape.width_of_page)
    return (shape.beyond > 0) & fits & (np.minimum(shape.left, shape.top) >= 0)


def far_beyond(shape: Shape) -> Mask:
    """A fifth of the boxes beyond the page, the farthest by a third of its side: another unit or resolution. A single
    box far off is a slip of that box."""
    times = np.maximum(shape.right / shape.width_of_page, shape.bottom / shape.height_of_page)
    return (5 * shape.beyond >= shape.count) & (shape.beyond > 0) & (times > 4 / 3)


def twice_normalized(shape: Shape) -> Mask:
    """All in the top-left corner, in lines too low to be read: normalized once too often, or already 0 to 1000. Marks
    in a figure are as small, but do not start at the page's margins."""
    right, bottom = shape.right / shape.width_of_page, shape.bottom / shape.height_of_page
    of_height, of_width = shape.height / shape.height_of_page, shape.height / shape.width_of_page
    tiny = (of_height < TINY_OF_HEIGHT) & (of_width < TINY_OF_WIDTH)
    margins = (shape.left / shape.width_of_page <= 0.1) & (shape.top / shape.height_of_page <= 0.1)
    cornered = margins & (right <= 0.8) & (bottom <= 0.8)
    return cornered & tiny & (shape.count >= MANY) & (shape.height > 0)


def against_reading(shape: Shape) -> Mask:
    """Nearly every new line is above the one before: the origin is at the other end."""
    steps = shape.upward + shape.downward
    return (steps >= 5) & (shape.upward >= 0.9 * steps)


_JUDGES = (
    (ratios, "all coordinates are 0 to 1", "`unit: ratio`?"),
    (percents, "all coordinates are 0 to 100", "`unit: percent`?"),
    (corner_order, "every width and height is a corner's coordinate", "`order: xyxy`?"),
    (size_order, "corners are inverted and fit as sizes", "`order: xywh`?"),
    (upside_down_corners, "y0 > y1 in every box", "corners from the top left, or `origin: bottom_left`?"),
    (swapped_sides, "fits only with width and height swapped", "width and height in the right order"),
    (far_beyond, "far beyond the page", "the page's size in the unit of its boxes"),
    (twice_normalized, "all in one corner, in tiny lines", "`unit: norm1000`, or boxes not normalized twice"),
    (against_reading, "lines run upwards", "`origin` at the other end?"),
)


def _median(values: Float64s, owner: Int64s, starts: Int64s, lengths: Int64s) -> Float64s:
    """Lower median of each page's values."""
    order = np.lexsort((values, owner))
    middle: Float64s = values[order][starts + (lengths - 1) // 2]
    return middle
