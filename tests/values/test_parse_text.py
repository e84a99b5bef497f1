"""The cell grammar against its definition as regular expressions and Python's own types."""

from __future__ import annotations

import datetime
import math
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.fields import Field, FieldType, Kind
from pipeline.values.parse_text import BLANKS, Parsed, parse_cells, parse_plain_columns
from pipeline.values.paths import field_paths


def one(text: str | None, kind: Kind, decimal: str = ".") -> tuple[object, str]:
    """Value and verdict of one cell."""
    parsed = parse_cells(pl.Series([text], dtype=pl.String), kind, decimal)
    return parsed.values[0], verdict(parsed, 0)


def verdict(parsed: Parsed, at: int) -> str:
    if parsed.wrong[at]:
        return "wrong"
    if parsed.not_finite is not None and parsed.not_finite[at]:
        return "not finite"
    return "whole" if parsed.with_point is not None and parsed.with_point[at] else ""


NUMBERISH = st.text(st.sampled_from("0123456789+-.,eE naif_x٣\t"), max_size=7) | st.sampled_from(
    [
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1e308",
        "1e309",
        "inf",
        "-Infinity",
        "NaN",
    ]
)


@given(NUMBERISH)
def test_integers_are_whole_numbers_of_64_bits(text: str) -> None:
    clean = text.strip(BLANKS)
    value, problem = one(text, Kind.INTEGER)
    match = re.fullmatch(r"([+-]?[0-9]+)(\.0+)?", clean)
    if match and -(2**63) <= int(match[1]) < 2**63:
        assert (value, problem) == (int(match[1]), "whole" if match[2] else "")
    else:
        assert (value, problem) == (None, "wrong" if clean else "")


@given(NUMBERISH)
def test_numbers_are_decimal_and_finite(text: str) -> None:
    clean = text.strip(BLANKS)
    value, problem = one(text, Kind.NUMBER)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", clean):
        expected = float(clean)
        assert (value, problem) == ((expected, "") if math.isfinite(expected) else (None, "not finite"))
    elif re.fullmatch(r"(?i)[+-]?(nan|inf|infinity)", clean):
        assert (value, problem) == (None, "not finite")
    else:
        assert (value, problem) == (None, "wrong" if clean else "")


@given(NUMBERISH)
def test_a_decimal_comma_means_what_a_point_means_elsewhere(text: str) -> None:
    swapped = text.translate({ord(","): ".", ord("."): ","})
    if text.count(",") + text.count(".") <= 1:
        assert one(text, Kind.NUMBER, ",") == one(swapped, Kind.NUMBER, ".")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,25", 1.25),
        ("1.25", 1.25),
        ("0,125", 0.125),
        ("1.234", None),
        ("12,345", None),
        ("1.234,5", None),
        ("7", 7.0),
    ],
)
def test_where_either_mark_may_stand_nothing_is_taken_that_may_be_a_thousands_mark(
    text: str, value: float | None
) -> None:
    assert one(text, Kind.NUMBER, ".,") == (value, "" if value is not None else "wrong")


@pytest.mark.parametrize("text", ["true", "TRUE", "Yes", "1", " true "])
def test_true(text: str) -> None:
    assert one(text, Kind.BOOLEAN) == (True, "")


@pytest.mark.parametrize("text", ["false", "False", "NO", "0"])
def test_false(text: str) -> None:
    assert one(text, Kind.BOOLEAN) == (False, "")


@pytest.mark.parametrize("text", ["y", "wahr", "2", "0.0", "on", "nan"])
def test_no_boolean(text: str) -> None:
    assert one(text, Kind.BOOLEAN) == (None, "wrong")


@given(st.dates(min_value=datetime.date(1000, 1, 1)))
def test_dates_are_iso_dates(date: datetime.date) -> None:
    assert one(date.isoformat(), Kind.DATE) == (date.isoformat(), "")
    assert one(f"{date} 00:00:00", Kind.DATE) == (date.isoformat(), "")
    assert one(f"{date} 00:00:01", Kind.DATE) == (None, "wrong")


@pytest.mark.parametrize("text", ["2023-02-29", "31.12.2024", "12/31/2024", "2024-1-1", "20240101", "45292"])
def test_no_date(text: str) -> None:
    assert one(text, Kind.DATE) == (None, "wrong")


@given(st.datetimes(min_value=datetime.datetime(1000, 1, 1)).map(lambda d: d.replace(microsecond=0)))
def test_moments_are_iso(moment: datetime.datetime) -> None:
    iso = moment.isoformat()
    assert one(iso, Kind.DATETIME) == (iso, "")
    assert one(iso.replace("T", " "), Kind.DATETIME) == (iso, "")
    assert one(iso + "+02:00", Kind.DATETIME) == (iso + "+02:00", "")
    assert one(iso[:16], Kind.DATETIME) == (iso[:16] + ":00", "")
    assert one(iso[:10], Kind.DATETIME) == (iso[:10] + "T00:00:00", "")


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31T24:00:00",
        "2024-01-31T09:60",
        "2024-01-31T09:59:60",
        "2024-01-31T09:00+25:00",
        "09:00",
        "now",
    ],
)
def test_no_moment(text: str) -> None:
    assert one(text, Kind.DATETIME) == (None, "wrong")


@pytest.mark.parametrize("kind", [Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.DATETIME])
@pytest.mark.parametrize("text", [None, "", "  ", "\xa0"])
def test_a_blank_is_no_value_and_no_mistake(text: str | None, kind: Kind) -> None:
    assert one(text, kind) == (None, "")


@given(
    st.lists(st.none() | NUMBERISH, max_size=6),
    st.sampled_from([Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE]),
)
def test_a_column_is_read_cell_by_cell(cells: list[str | None], kind: Kind) -> None:
    parsed = parse_cells(pl.Series(cells, dtype=pl.String), kind)
    assert [(parsed.values[i], verdict(parsed, i)) for i in range(len(cells))] == [
        one(cell, kind) for cell in cells
    ]


DIGITS = st.text(st.sampled_from("0123456789"), min_size=1, max_size=22)
SPELLINGS = st.one_of(
    NUMBERISH,
    DIGITS,
    st.integers(-(2**64), 2**64).map(str),
    st.floats().map(repr),
    st.tuples(DIGITS, DIGITS).map(".".join),
    st.tuples(DIGITS, st.integers(-330, 310)).map("{0[0]}e{0[1]}".format),
    st.sampled_from(["true", "false", "True", "FALSE", "yes", "no", "1", "0", " true", "t", "true "]),
)


@given(
    st.sampled_from([Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN]), SPELLINGS, st.sampled_from([".", ",", ".,"])
)
def test_a_column_read_in_one_pass_is_what_the_grammar_says(kind: Kind, cell: str, decimal: str) -> None:
    fields = field_paths([Field("a", "a", FieldType(kind))])
    (values,) = parse_plain_columns(pl.DataFrame({"a": [cell]}, schema={"a": pl.String}), fields, decimal)
    value, problem = one(cell, kind, decimal)
    if values is not None:
        assert problem == ""
        assert repr(values[0]) == repr(value)
