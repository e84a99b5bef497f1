"""False alarms of the geometry judges on real documents, and what they find when a page is declared wrongly.

    python -m benchmarks.geometry_alarms [--data FOLDER]

Every real page is written in every order, unit and origin and at several resolutions, whole and as the short pages
that its first words and its parts would be; all of these are honest, so each alarm is a false one. Then each page is
declared wrongly in every way that the judges know. Exits 1 at one false alarm in a thousand or more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure import ROOT
from benchmarks.real_pages import Float64s, RealPage, real_pages
from pipeline.stages.layout.boxes import overhang
from pipeline.stages.layout.geometry import shape_of, suspicions
from pipeline.stages.layout.ragged import per_record

WIDTHS = (600, 850, 1240, 1700, 2480)
"""Pixels across a page: 72 to 300 dots an inch."""
MOST_RATE = 0.001
PARTS = (3, 5, 8, 12, 20, 35, 60, 120)
"""Words of the short pages made of a page's first words, and of a part from anywhere."""


@dataclass(frozen=True, slots=True)
class Written:
    """A page as a file would have it."""

    boxes: Float64s  # xyxy in the unit, from the top left
    sides: tuple[float, float]
    unit: str
    order: str


def honest(page: RealPage) -> Iterator[Written]:
    """The page in every unit."""
    for width in WIDTHS:
        sides = (float(width), float(round(width * page.aspect)))
        # A word keeps a pixel of width and height, as OCR has it.
        boxes = np.round(page.boxes * (sides * 2))
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 1)
        yield Written(boxes, sides, "pixel", "xyxy")
        yield Written(boxes, sides, "pixel", "xywh")
    point = (612.0, 612.0 * page.aspect)
    yield Written(page.boxes * (point * 2), point, "point", "xyxy")
    inch = (8.5, 8.5 * page.aspect)
    yield Written(page.boxes * (inch * 2), inch, "inch", "xyxy")
    for unit, side in (("ratio", 1.0), ("percent", 100.0)):
        for order in ("xyxy", "xywh"):
            yield Written(page.boxes * side, (side, side), unit, order)
    yield Written(np.floor(page.boxes * 1000), (1000.0, 1000.0), "norm1000", "xyxy")


def parts(page: RealPage, random: np.random.Generator) -> Iterator[RealPage]:
    """Short pages: the first words, and words from somewhere on."""
    for count in PARTS:
        if count < len(page.boxes):
            start = int(random.integers(0, len(page.boxes) - count))
            yield RealPage(page.name, page.boxes[:count], page.aspect)
            yield RealPage(page.name, page.boxes[start : start + count], page.aspect)


def wrongly_declared(page: RealPage) -> Iterator[tuple[str, Written]]:
    """The page with each declaration that is not true of it."""
    pixel = (1700.0, float(round(1700 * page.aspect)))
    boxes = page.boxes
    yield "ratio read as pixels", Written(boxes, pixel, "pixel", "xyxy")
    yield "percent read as pixels", Written(boxes * 100, pixel, "pixel", "xyxy")
    yield (
        "norm1000 read as pixels of 300 dpi",
        Written(np.floor(boxes * 1000), (2480.0, float(round(2480 * page.aspect))), "pixel", "xyxy"),
    )
    twice = boxes * ((1000 / 2480, 1000 / (2480 * page.aspect)) * 2)
    yield "normalized twice", Written(np.floor(twice * 1000), (1000.0, 1000.0), "norm1000", "xyxy")
    yield "pixels read as norm1000", Written(boxes * (pixel * 2), (1000.0, 1000.0), "norm1000", "xyxy")
    yield "percent read as ratio", Written(boxes * 100, (1.0, 1.0), "ratio", "xyxy")
    yield "ratio read as percent", Written(boxes, (100.0, 100.0), "percent", "xyxy")
    yield "percent read as norm1000", Written(boxes * 100, (1000.0, 1000.0), "norm1000", "xyxy")
    yield "sides swapped", Written(boxes * (pixel * 2), pixel[::-1], "pixel", "xyxy")
    size = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    yield "xywh read as xyxy", Written(size * (pixel * 2), pixel, "pixel", "xyxy")
    corner = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    yield "xyxy read as xywh", Written(corner * (pixel * 2), pixel, "pixel", "xywh")
    flipped = boxes.copy()
    flipped[:, [1, 3]] = 1 - boxes[:, [3, 1]]
    yield "origin at the other end", Written(flipped * (pixel * 2), pixel, "pixel", "xyxy")
    yield (
        "y corners in the wrong order",
        Written(boxes[:, [0, 3, 2, 1]] * (pixel * 2), pixel, "pixel", "xyxy"),
    )
    yield "half the resolution", Written(boxes * (pixel * 2), (pixel[0] / 2, pixel[1] / 2), "pixel", "xyxy")


def alarms(pages: list[Written]) -> list[str | None]:
    """What the judges say of each page, or None."""
    out: list[str | None] = []
    for page in pages:
        sides = np.tile(page.sides, (len(page.boxes), 2))
        low, high = (
            np.minimum(page.boxes[:, :2], page.boxes[:, 2:]),
            np.maximum(page.boxes[:, :2], page.boxes[:, 2:]),
        )
        every = np.ones(len(page.boxes), bool)
        hang = overhang(np.concatenate([low, high], axis=1), sides, sides * 0.005, every)
        lengths = np.array([len(page.boxes)])
        beyond = per_record(lengths, hang.beyond)
        shape = shape_of(
            page.boxes, lengths, np.array([page.sides]), np.array([page.unit]), beyond, page.order
        )
        found = suspicions(shape)
        out.append(found[0].found.partition(":")[0] if found else None)
    return out


def main() -> int:
    """Print the rates."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.geometry_alarms",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of real documents"
    )
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        print(f"no folder of real documents at {arguments.data}")
        return 2
    pages = list(real_pages(arguments.data))
    random = np.random.default_rng(20240101)
    short = [part for page in pages for part in parts(page, random)]
    worst = 0.0
    print(f"{len(pages)} real pages, {sum(len(page.boxes) for page in pages)} boxes")
    for name, group in (("whole pages", pages), ("short pages made of them", short)):
        said = alarms([written for page in group for written in honest(page)])
        hits = Counter(alarm for alarm in said if alarm)
        rate = sum(hits.values()) / max(len(said), 1)
        worst = max(worst, rate)
        print(f"{name}: {sum(hits.values())} false alarms of {len(said)} ({rate:.4%}) {dict(hits) or ''}")
    print(
        "found when declared wrongly (whole pages; what is beyond the page or inverted is stopped in any case):"
    )
    kinds: dict[str, list[Written]] = {}
    for page in pages:
        for kind, wrong in wrongly_declared(page):
            kinds.setdefault(kind, []).append(wrong)
    for kind, written in kinds.items():
        said = alarms(written)
        hits = Counter(alarm for alarm in said if alarm)
        print(f"  {kind}: {sum(hits.values())} of {len(said)} {dict(hits)}")
    return int(worst >= MOST_RATE)


if __name__ == "__main__":
    sys.exit(main())
