"""Judges of whole pages: what each one stops, and the honest page next to it that passes."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.reasons import Policy
from tests.stages.layout.documents import Judged, judge, schema

WIDTH, HEIGHT = 1700, 2200
Box = list[float]


def text(lines: int = 40, words: int = 6) -> list[Box]:
    """A page of text in pixels: lines from the top down, words from the left."""
    return [
        [150.0 + 230 * w, 200.0 + 45 * line, 150.0 + 230 * w + 180, 200.0 + 45 * line + 30]
        for line in range(lines)
        for w in range(words)
    ]


def scaled(boxes: list[Box], x: float, y: float) -> list[Box]:
    return [[b[0] * x, b[1] * y, b[2] * x, b[3] * y] for b in boxes]


def one(boxes: list[Box], width: float = WIDTH, height: float = HEIGHT, **options: Any) -> Judged:
    page = {
        "words": [f"w{i}" for i in range(len(boxes))],
        "boxes": boxes,
        "labels": ["O"] * len(boxes),
        "page_width": width,
        "page_height": height,
    }
    return judge([page], schema(**options))


def said(judged: Judged) -> str:
    """What the geometry judges say, "" for nothing."""
    return " ".join(
        found
        for item in judged.findings.items
        if item.reason.slug == "bbox_unit_suspect"
        for found in item.found
    )


def test_an_honest_page_passes() -> None:
    assert one(text()).slugs() == []


@pytest.mark.parametrize("lines", [1, 2, 5])
@pytest.mark.parametrize("words", [1, 2, 6])
def test_a_short_page_passes(lines: int, words: int) -> None:
    assert one(text(lines, words)).slugs() == []


def test_shares_under_pixels() -> None:
    boxes = scaled(text(), 1 / WIDTH, 1 / HEIGHT)
    judged = one(boxes)
    assert judged.slugs(policy=Policy.QUARANTINE) == ["bbox_unit_suspect"]
    assert "0 to 1:" in said(judged)
    assert one(boxes, unit="ratio").slugs() == []
    assert one([[0.0, 0.0, 1.0, 2.0]]).slugs() == []


@pytest.mark.parametrize("unit", ["pixel", "norm1000"])
def test_percent_under_pixels_and_thousandths(unit: str) -> None:
    boxes = scaled(text(), 100 / WIDTH, 100 / HEIGHT)
    assert "0 to 100:" in said(one(boxes, unit=unit))
    assert one(boxes, unit="percent").slugs() == []


def test_a_stamp_in_the_corner_is_no_percent() -> None:
    assert one([[10, 10, 60, 30], [62, 10, 99, 30], [10, 40, 60, 60], [62, 40, 99, 60]]).slugs() == []


def test_larger_units_under_shares() -> None:
    assert "far beyond" in said(one(text(), unit="ratio"))
    assert "far beyond" in said(one(text(), unit="norm1000"))
    assert "far beyond" in said(one(text(), width=800, height=1000))


def test_one_box_far_off_is_a_slip_of_that_box() -> None:
    judged = one([*text(), [9000, 10, 9100, 40]])
    assert judged.slugs() == ["bbox_out_of_page"]


def test_sides_swapped() -> None:
    judged = one(text(), width=HEIGHT, height=WIDTH)
    assert "width and height swapped" in said(judged)
    assert "bbox_out_of_page" in judged.slugs()


def test_a_wide_page_is_not_swapped() -> None:
    assert one(scaled(text(), HEIGHT / WIDTH, WIDTH / HEIGHT), width=HEIGHT, height=WIDTH).slugs() == []


def test_normalized_already_under_pixels() -> None:
    boxes = [[float(int(n)) for n in b] for b in scaled(text(), 1000 / 2480, 1000 / 3508)]
    assert "tiny lines" in said(one(boxes, width=2480, height=3508))
    assert one(boxes, unit="norm1000").slugs() == []


def test_small_print_in_a_corner_passes() -> None:
    small = scaled(text(), 0.4, 0.4)  # lines of 12 pixels on 2200: 4.3 point
    assert one(small).slugs() == []


def test_the_origin_at_the_other_end() -> None:
    boxes = [[b[0], HEIGHT - b[3], b[2], HEIGHT - b[1]] for b in text()]
    assert "lines run upwards" in said(one(boxes))
    assert one(boxes, origin="bottom_left").slugs() == []
    assert "lines run upwards" in said(one(text(), origin="bottom_left"))


def test_columns_are_read_from_the_top_again() -> None:
    left = scaled(text(30, 3), 0.5, 1)
    right = [[b[0] + 800, b[1], b[2] + 800, b[3]] for b in left]
    assert one(left + right).slugs() == []
    table = [b for w in range(6) for b in text()[w::6]]  # column by column
    assert one(table).slugs() == []


def test_corners_from_the_bottom_left() -> None:
    judged = one([[b[0], b[3], b[2], b[1]] for b in text()])
    assert "y0 > y1 in every box" in said(judged)
    assert "bbox_inverted" in judged.slugs()


def test_sizes_read_as_corners_and_corners_as_sizes() -> None:
    sizes = [[b[0], b[1], b[2] - b[0], b[3] - b[1]] for b in text()]
    assert "fit as sizes" in said(one(sizes))
    assert one(sizes, order="xywh").slugs() == []
    assert "corner's coordinate" in said(one(text(), order="xywh"))


def test_sorting_corners_was_asked_for() -> None:
    judged = one([[b[0], b[3], b[2], b[1]] for b in text()], policies={"bbox_inverted": "repair"})
    assert judged.good()
    assert said(judged) == ""


def test_a_suspicion_may_be_a_flag_or_none() -> None:
    boxes = scaled(text(), 100 / WIDTH, 100 / HEIGHT)
    flagged = one(boxes, policies={"bbox_unit_suspect": "flag"})
    assert flagged.good()
    assert flagged.slugs(policy=Policy.FLAG) == ["bbox_unit_suspect"]
    assert one(boxes, geometry="off").slugs() == []


@pytest.mark.shared
def test_real_pages_raise_no_alarm(shared: Any) -> None:
    from benchmarks.geometry_alarms import alarms, honest
    from benchmarks.real_pages import real_pages

    written = [variant for page in real_pages(shared / "data") for variant in honest(page)]
    assert len(written) > 1000
    assert sum(alarm is not None for alarm in alarms(written)) / len(written) < 0.001
