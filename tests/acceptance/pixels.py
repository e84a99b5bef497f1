"""Pixels of the stored page image, at the place where a pixel of the original came to lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.acceptance.case import Report
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Record
from tests.acceptance.values import actual_of

WORDS = ("pixel", "pixel_near", "distinct_levels", "size")
EXACT, NEAR = 3, 24
"""Largest difference a channel may have: resampling blurs what lies near an edge."""
SIDE = 224


def check(context: Context, key: str, wanted: Any, report: Report, tolerance: float) -> None:
    """Compare ``pixel``, ``pixel_near`` or ``distinct_levels`` with the page image of each certified record."""
    for name, record in context.ids:
        if not record.certified:
            continue
        image = stored(context, record)
        value = _of(context, wanted, name, record)
        if value is None:
            continue  # it speaks of other records
        if image is None:
            report.fail(f"{name}: no page image stored")
        elif key == "size":
            _upright(context, record, image, value, report)
        elif key == "distinct_levels":
            levels = len(np.unique(image[..., 0]))
            report.expect(
                levels >= min(int(value), SIDE) * 3 // 4, f"{name}: {levels} grey levels, expected {value}"
            )
        else:
            limit = tolerance or (EXACT if key == "pixel" else NEAR)
            _compare(context, record, image, value, report, limit)


def _of(context: Context, wanted: Any, name: str | None, record: Record) -> Any:
    """What is wanted of one record: by its id, by the name of its image, or of all."""
    if not isinstance(wanted, Mapping):
        return wanted
    page = context.outcome.pages.get(record.samples[0].get("page_id") or "", {})
    for key in (name, str(page.get("image", "")).rsplit("/", 1)[-1]):
        if key in wanted:
            return wanted[key]
    return None if any(isinstance(value, Mapping) for value in wanted.values()) else wanted


def stored(context: Context, record: Record) -> npt.NDArray[np.uint8] | None:
    """The stored image, height × width × channel."""
    page = context.outcome.pages.get(record.samples[0].get("page_id") or "")
    if page is None:
        return None
    return np.asarray(page["pixels"], dtype=np.uint8).reshape(3, SIDE, SIDE).transpose(1, 2, 0)


def original_size(context: Context, record: Record) -> tuple[int, int]:
    """Width and height of the original, upright."""
    from PIL import Image, ImageOps

    page = context.outcome.pages[record.samples[0]["page_id"]]
    with Image.open(context.case.folder / str(page["image"])) as image:
        return ImageOps.exif_transpose(image).size


def _upright(
    context: Context, record: Record, image: npt.NDArray[np.uint8], wanted: Any, report: Report
) -> None:
    """The stored side is always the model's: that it was made from the page of this size, the right way up, shows in
    the likeness to the original turned upright here."""
    from PIL import Image, ImageOps

    page = context.outcome.pages[record.samples[0]["page_id"]]
    with Image.open(context.case.folder / str(page["image"])) as opened:
        upright = ImageOps.exif_transpose(opened).convert("RGBA")
    size = list(upright.size)
    report.expect(size == list(wanted) or list(wanted) == [SIDE, SIDE], f"size {size}, expected {wanted}")
    ground = Image.new("RGBA", upright.size, "white")
    ground.alpha_composite(upright)
    likeness = np.asarray(ground.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)).astype(int)
    away = float(np.abs(likeness - image).mean())
    report.expect(
        away < NEAR, f"row {record.place[2]}: the stored image is not the upright page ({away:.0f} away)"
    )


def _compare(
    context: Context, record: Record, image: npt.NDArray[np.uint8], wanted: Any, report: Report, limit: float
) -> None:
    width, height = original_size(context, record)
    for place, colour in _points(wanted):
        x, y = place
        column, row = int((x + 0.5) * SIDE / width), int((y + 0.5) * SIDE / height)
        found = image[min(row, SIDE - 1), min(column, SIDE - 1)].astype(int)
        want = np.asarray(colour if isinstance(colour, list) else [colour] * 3)
        if np.abs(found - want).max() > limit:
            report.fail(
                f"{actual_of(context, 'id', record)}: pixel {x},{y} is {found.tolist()}, expected {colour}"
            )


def _points(wanted: Any) -> list[tuple[tuple[float, float], Any]]:
    """``{"x,y": colour}``, ``{"at": [x, y], "rgb": colour}`` or a list of these."""
    if isinstance(wanted, list):
        return [point for item in wanted for point in _points(item)]
    if "at" in wanted or "xy" in wanted:
        x, y = wanted.get("at", wanted.get("xy"))
        return [((float(x), float(y)), wanted.get("rgb", wanted.get("value", wanted.get("color"))))]
    points = []
    for place, colour in wanted.items():
        x, y = str(place).split(",")
        points.append(((float(x), float(y)), colour))
    return points
