"""Every way of writing a box gives the integers 0 to 1000, or a reason."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SchemaError
from pipeline.reasons import Policy
from tests.stages.layout.documents import Judged, context, encode, judge, schema


def page(*boxes: list[float], width: Any = 2000, height: Any = 2500, **more: Any) -> dict[str, Any]:
    """A page of one word a box, all labelled O."""
    words = [f"w{i}" for i in range(len(boxes))]
    return {
        "words": words,
        "boxes": [list(box) for box in boxes],
        "labels": ["O"] * len(boxes),
        "page_width": width,
        "page_height": height,
        **more,
    }


def one(of: Any, *boxes: list[float], **more: Any) -> Judged:
    return judge([page(*boxes, **more)], of)


@pytest.mark.parametrize(
    ("order", "unit", "origin", "box", "expected"),
    [
        ("xyxy", "pixel", "top_left", [1240, 150, 1480, 200], [620, 60, 740, 80]),
        ("xywh", "pixel", "top_left", [400, 500, 200, 50], [200, 200, 300, 220]),
        ("xywh", "ratio", "top_left", [0.25, 0.5, 0.125, 0.02], [250, 500, 375, 520]),
        ("xyxy", "percent", "top_left", [5.7, 10, 28.5, 11.1], [57, 100, 285, 111]),
        ("xyxy", "norm1000", "top_left", [100, 120, 300, 140], [100, 120, 300, 140]),
        ("quad", "pixel", "top_left", [300, 405, 500, 415, 498, 455, 298, 445], [149, 162, 250, 182]),
        ("quad", "pixel", "top_left", [298, 445, 300, 405, 500, 415, 498, 455], [149, 162, 250, 182]),
        ("polygon", "pixel", "top_left", [200, 250, 400, 300, 300, 500], [100, 100, 200, 200]),
        ("vertices", "ratio", "top_left", [0.1, 0.2, 0.3, 0.4], [100, 200, 300, 400]),
        ("rotated_xywh", "percent", "top_left", [10, 10, 20, 5, 0], [100, 100, 300, 150]),
        ("rotated_xywh", "pixel", "top_left", [400, 250, 200, 50, 90], [175, 100, 200, 180]),
        ("xyxy", "pixel", "bottom_left", [200, 2375, 400, 2450], [100, 20, 200, 50]),
        ("xywh", "pixel", "bottom_left", [200, 2375, 200, 75], [100, 20, 200, 50]),
    ],
)
def test_each_order_unit_and_origin(
    order: str, unit: str, origin: str, box: list[float], expected: list[int]
) -> None:
    judged = one(schema(order=order, unit=unit, origin=origin), box)
    assert judged.boxes() == [expected]
    assert judged.slugs() == []


def test_a_quarter_turn_in_percent_goes_by_the_pages_own_sides() -> None:
    # 20 % of 2000 px is 400 px long; turned to the vertical it is 400 of 2500 px, 16 % high.
    judged = one(schema(order="rotated_xywh", unit="percent"), [50, 50, 20, 5, 90])
    assert judged.boxes() == [[437, 500, 500, 660]]


def test_points_from_the_bottom_left() -> None:
    judged = one(
        schema(unit="point", origin="bottom_left"),
        [61.2, 712.8, 122.4, 752.4],
        [61.2, 39.6, 122.4, 79.2],
        width=612,
        height=792,
    )
    assert judged.boxes() == [[100, 50, 200, 100], [100, 900, 200, 950]]
    assert judged.good()


@pytest.mark.parametrize(
    ("origin", "box"), [("top_left", [120, 130, 220, 150]), ("bottom_left", [120, 1050, 220, 1070])]
)
def test_the_page_box_is_the_page(origin: str, box: list[float]) -> None:
    of = schema(unit="point", origin=origin, page={"box": "cropbox"})
    judged = one(of, box, page_box=[20, 100, 1020, 1100])
    assert judged.boxes() == [[100, 30, 200, 50]]
    for_all = schema(unit="point", origin=origin, page={"box": [20, 100, 1020, 1100]})
    assert one(for_all, box).boxes() == [[100, 30, 200, 50]]


@pytest.mark.parametrize(
    "bad", [[0, 0, 10], [10, 0, 10, 20], [0, 5, 10, 5], [0, 0, math.nan, 5], [9, 9, 3, 3]]
)
def test_a_page_box_that_is_none(bad: list[float]) -> None:
    judged = one(schema(unit="point", page={"box": "cropbox"}), [1, 1, 2, 2], page_box=bad)
    assert judged.slugs() == ["page_size_invalid"]


def test_a_page_box_in_numbers_that_is_none() -> None:
    judged = one(schema(unit="point", page={"box": [9, 9, 3, 3]}), [1, 1, 2, 2])
    assert judged.slugs() == ["page_size_invalid"]


def test_the_unit_is_the_pages_own() -> None:
    of = schema(order="quad", unit={"column": "unit"})
    inches = page([0.85, 1.1, 2.55, 1.1, 2.55, 1.375, 0.85, 1.375], width=8.5, height=11.0, unit="inch")
    pixels = page([200, 250, 600, 250, 600, 500, 200, 500], unit="pixel")
    unknown = page([1, 1, 2, 1, 2, 2, 1, 2], unit="furlong")
    judged = judge([inches, pixels, unknown], of)
    assert judged.boxes(0) == [[100, 100, 300, 125]]
    assert judged.boxes(1) == [[100, 100, 300, 200]]
    assert judged.slugs(2) == ["value_not_allowed"]


@pytest.mark.parametrize(("width", "height"), [(0, 100), (-5, 100), (math.nan, 100), (100, math.inf)])
def test_a_page_without_size(width: float, height: float) -> None:
    assert one(schema(), [1, 1, 2, 2], width=width, height=height).slugs() == ["page_size_invalid"]


def test_shares_need_no_page_size() -> None:
    assert one(schema(unit="ratio", page={}), [0.1, 0.1, 0.2, 0.2]).boxes() == [[100, 100, 200, 200]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": "pixel", "page": {}},
        {"unit": "point", "page": {"width": "width"}},
        {"unit": {"column": "unit"}, "page": {}},
        {"order": "rotated_xywh", "unit": "percent", "page": {}},
        {"order": "rotated_xywh", "unit": "percent", "origin": "bottom_left"},
    ],
)
def test_a_schema_that_cannot_place_a_box_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="box"):
        judge([], schema(**wrong))


@pytest.mark.parametrize(
    ("order", "box", "found", "expected"),
    [
        ("xyxy", [410, 72], "2", "4"),
        ("xyxy", [1, 2, 3, 4, 5], "5", "4"),
        ("xyxy", [], "0", "4"),
        ("quad", [1, 2, 3, 4], "4", "8"),
        ("polygon", [1, 2, 3, 4, 5], "5", "an even count from 4"),
        ("rotated_xywh", [1, 2, 3, 4], "4", "5"),
    ],
)
def test_a_box_with_the_wrong_count_of_numbers(
    order: str, box: list[float], found: str, expected: str
) -> None:
    judged = one(schema(order=order), box)
    assert judged.slugs(policy=Policy.QUARANTINE) == ["bbox_arity"]
    (finding,) = judged.findings.items
    assert (list(finding.found), finding.expected, list(finding.paths)) == ([found], expected, ["[0]"])


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, None])
def test_a_coordinate_that_is_no_finite_number(number: float | None) -> None:
    judged = one(schema(), [1, 1, 50, 50], [1, number, 50, 50])  # type: ignore[list-item]
    assert judged.slugs() == ["bbox_not_finite"]
    assert list(judged.findings.items[0].paths) == ["[1]"]


def test_inverted_boxes_are_rejected_or_sorted() -> None:
    box = [200, 300, 400, 250]
    assert "bbox_inverted" in one(schema(), box).slugs(policy=Policy.QUARANTINE)
    sorted_ = one(schema(policies={"bbox_inverted": "repair"}), box)
    assert sorted_.good()
    assert sorted_.boxes() == [[100, 100, 200, 120]]
    assert sorted_.slugs(policy=Policy.REPAIR) == ["bbox_inverted"]


def test_a_negative_width_is_an_inverted_box() -> None:
    assert "bbox_inverted" in one(schema(order="xywh"), [400, 500, -200, 50]).slugs()


@pytest.mark.parametrize("box", [[0, 0, 0, 0], [500, 500, 500, 600], [500, 500, 600, 500]])
def test_a_word_without_area_rejects_the_page_or_is_dropped(box: list[float]) -> None:
    boxes = ([100, 100, 200, 200], box, [300, 300, 400, 400])
    assert one(schema(), *boxes).slugs(policy=Policy.QUARANTINE) == ["bbox_zero_area"]
    dropped = one(schema(policies={"bbox_zero_area": "repair"}), *boxes)
    assert dropped.good()
    assert dropped.column("@words") == ["w0", "w2"]
    assert dropped.column("@word_index") == [0, 2]
    assert dropped.column("@labels") == [0, 0]
    assert len(dropped.boxes() or []) == 2


def test_dropping_an_entitys_first_word_rejects_the_page() -> None:
    given_page = page([5, 5, 5, 5], [10, 10, 50, 50])
    given_page["labels"] = ["B-KEY", "I-KEY"]
    judged = judge([given_page], schema(policies={"bbox_zero_area": "repair"}))
    assert "bbox_zero_area" in judged.slugs(policy=Policy.QUARANTINE)


def test_a_page_of_boxes_without_area_has_no_words_left() -> None:
    judged = one(schema(policies={"bbox_zero_area": "repair"}), [5, 5, 5, 5])
    assert "doc_empty" in judged.slugs(policy=Policy.QUARANTINE)


def test_a_thin_box_is_not_without_area() -> None:
    judged = one(schema(), [100, 100, 101, 101])
    assert judged.good()
    assert judged.boxes() == [[50, 40, 50, 40]]


@pytest.mark.parametrize(
    ("tolerance", "box", "expected"),
    [
        ({"pixels": 10}, [-6, 40, 200, 90], [0, 16, 100, 36]),
        ({"pixels": 2}, [1600, 2450, 2001, 2502], [800, 980, 1000, 1000]),
        ({"percent": 0.5}, [1990, 2450, 2010, 2500], [995, 980, 1000, 1000]),
    ],
)
def test_a_small_overhang_is_clipped_and_recorded(
    tolerance: dict[str, float], box: list[float], expected: list[int]
) -> None:
    judged = one(schema(clip_tolerance=tolerance), box)
    assert judged.boxes() == [expected]
    assert judged.slugs(policy=Policy.REPAIR) == ["bbox_clipped"]
    assert judged.good()
    refused = one(schema(clip_tolerance=tolerance, policies={"bbox_clipped": "quarantine"}), box)
    assert not refused.good()


@pytest.mark.parametrize(
    ("tolerance", "box"),
    [
        ({"pixels": 10}, [-11, 40, 200, 90]),
        ({"pixels": 10}, [-9, 40, -1, 90]),  # wholly outside: clipped, it would be made up
        ({"percent": 0.5}, [1990, 2450, 2011, 2500]),
        ({}, [1990, 2450, 2001, 2500]),
        ({"pixels": 10}, [1e300, 40, 2e300, 90]),
    ],
)
def test_what_lies_beyond_the_tolerance_rejects_the_page(
    tolerance: dict[str, float], box: list[float]
) -> None:
    judged = one(schema(clip_tolerance=tolerance), [10, 10, 20, 20], [30, 30, 40, 40], box)
    assert "bbox_out_of_page" in judged.slugs(policy=Policy.QUARANTINE)


def test_pixels_of_tolerance_are_the_pages_under_ratios() -> None:
    of = schema(unit="ratio", clip_tolerance={"pixels": 4})
    assert one(of, [0.5, 0.5, 1.0015, 1.0]).boxes() == [[500, 500, 1000, 1000]]
    assert "bbox_out_of_page" in one(of, [0.5, 0.5, 1.0025, 1.0]).slugs()


def test_paths_count_words_as_read() -> None:
    given_page = page([10, 10, 20, 20], [30, 10, 40, 20], [9000, 10, 9010, 20])
    given_page["words"] = ["a", " ", "c"]
    judged = judge([given_page], schema())
    places = {item.reason.slug: list(item.paths) for item in judged.findings.items}
    assert places["bbox_out_of_page"] == ["[2]"]


def test_many_bad_boxes_show_some_places_only() -> None:
    judged = one(schema(geometry="off"), *([3000, 1, 4000, 2] for _ in range(500)))
    assert [len(item.ids) for item in judged.findings.items] == [20]


def test_boxes_of_float_families_are_shares() -> None:
    judged = encode([page([500, 500, 1000, 625])], schema(model={"family": "bros"}))
    assert judged.samples is not None
    table = judged.samples.table
    assert str(
        table.schema.field("bbox").type
    ) == "list<item: fixed_size_list<item: float not null>[4] not null>" or (
        "float" in str(table.schema.field("bbox").type)
    )
    first, *inner, last = table["bbox"][0].as_py()
    assert first == [0, 0, 0, 0]
    assert last == [1, 1, 1, 1]
    assert all(box == pytest.approx([0.25, 0.2, 0.5, 0.25]) for box in inner)


def test_rounding_when_asked() -> None:
    box = [1.3, 1.3, 998.5, 999.6]
    assert one(schema(rounding="round"), box, width=1000, height=1000).boxes() == [[1, 1, 998, 1000]]
    assert one(schema(), box, width=1000, height=1000).boxes() == [[1, 1, 998, 999]]


_numbers = st.one_of(st.integers(-3000, 6000).map(float), st.floats(-1e4, 1e4, allow_nan=False))
_sizes = st.one_of(st.integers(1, 5000).map(float), st.floats(0.5, 5000, allow_nan=False))
_SCHEMAS = {
    (order, unit, origin): schema(order=order, unit=unit, origin=origin, geometry="off", labels={})
    for order in ("xyxy", "xywh", "polygon")
    for unit in ("pixel", "ratio", "percent", "norm1000")
    for origin in ("top_left", "bottom_left")
}


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(_SCHEMAS)),
    st.lists(st.tuples(_numbers, _numbers, _numbers, _numbers), min_size=1, max_size=5),
    _sizes,
    _sizes,
    st.sampled_from([1.0, 1e-1, 1e-3]),
)
def test_any_finite_box_lands_in_order_within_0_and_1000_or_rejects_its_page(
    how: tuple[str, str, str], boxes: list[tuple[float, ...]], width: float, height: float, shrink: float
) -> None:
    order, unit, origin = how
    written = [[float(n) * shrink for n in box] for box in boxes]
    judged = one(_SCHEMAS[how], *written, width=width, height=height)
    certified = judged.boxes()
    assert certified is not None
    if not judged.good():
        return
    for box, got in zip(written, certified, strict=True):
        assert got == _oracle(box, order, unit, origin, width, height)
        assert 0 <= got[0] <= got[2] <= 1000
        assert 0 <= got[1] <= got[3] <= 1000


def _oracle(box: list[float], order: str, unit: str, origin: str, width: float, height: float) -> list[int]:
    """The same by fractions, straight from the definition."""
    x0, y0, x1, y1 = (Fraction(repr(n)) for n in box)
    if order == "xywh":
        x1, y1 = x0 + x1, y0 + y1
    elif order == "polygon":
        x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
    share = {"ratio": 1, "percent": 100, "norm1000": 1000}.get(unit)
    wide = Fraction(share) if share else Fraction(repr(width))
    high = Fraction(share) if share else Fraction(repr(height))
    if origin == "bottom_left":
        y0, y1 = high - y1, high - y0
    pairs = ((x0, wide), (y0, high), (x1, wide), (y1, high))
    return [math.floor(1000 * min(max(value, Fraction(0)), side) / side) for value, side in pairs]


def test_a_stage_is_built_from_any_layout_schema() -> None:
    assert context(schema()).limits is not None
