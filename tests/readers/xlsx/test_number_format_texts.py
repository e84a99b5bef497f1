"""Dates and formats as a reader of the sheet sees them; openpyxl is the oracle."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format
from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

from pipeline.readers.xlsx.number_format import _BUILT_IN, LAST_DAY, NumberStyle, format_dates, number_style


def one_date(serial: str, shown: NumberStyle, *, date1904: bool = False) -> str:
    return format_dates(pa.array([serial]), np.array([shown], np.uint8), date1904=date1904)[0]


@given(st.integers(61, LAST_DAY - 1), st.integers(0, 86_399))
def test_moments_are_those_of_openpyxl(day: int, second: int) -> None:
    serial = day + second / 86_400
    expected = from_excel(serial, CALENDAR_WINDOWS_1900)
    assert isinstance(expected, datetime.datetime)
    whole = (expected + datetime.timedelta(microseconds=500)).replace(microsecond=0)
    assert one_date(repr(serial), NumberStyle.DATETIME) == whole.isoformat()


@given(st.integers(1, LAST_DAY - 1463))
def test_days_of_1904_are_those_of_openpyxl(day: int) -> None:
    expected = from_excel(day, CALENDAR_MAC_1904)
    assert isinstance(expected, datetime.datetime)
    assert one_date(str(day), NumberStyle.DATE, date1904=True) == expected.date().isoformat()


@pytest.mark.parametrize(
    ("serial", "shown", "text"),
    [
        ("59", NumberStyle.DATE, "1900-02-28"),
        ("60.25", NumberStyle.DATETIME, "1900-02-29T06:00:00"),
        ("61", NumberStyle.DATE, "1900-03-01"),
        ("0", NumberStyle.TIME, "00:00:00"),
        ("45292", NumberStyle.TIME, "2024-01-01T00:00:00"),
        ("0.000011574", NumberStyle.TIME, "00:00:01"),
        ("0.00000289352", NumberStyle.TIME, "00:00:00.250"),
        ("45292.00000289352", NumberStyle.DATETIME, "2024-01-01T00:00:00.250"),
        ("100.5", NumberStyle.DURATION, "2412:00:00"),
        ("2958465", NumberStyle.DATE, "9999-12-31"),
        ("2958466", NumberStyle.DATE, "2958466"),
        ("-1", NumberStyle.DATE, "-1"),
        ("-1", NumberStyle.DURATION, "-1"),
        ("1E+300", NumberStyle.DATE, "1E+300"),
    ],
)
def test_moments_at_the_edges_of_the_calendar(serial: str, shown: NumberStyle, text: str) -> None:
    assert one_date(serial, shown) == text


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("General", NumberStyle.NUMBER),
        ("0.00E+00", NumberStyle.NUMBER),
        ('0.0 "days"', NumberStyle.NUMBER),
        (r"#,##0\d", NumberStyle.NUMBER),
        ("[Red]0", NumberStyle.NUMBER),
        ("_(* #,##0_)", NumberStyle.NUMBER),
        ("0;[Red]d", NumberStyle.NUMBER),
        ("yyyy-mm-dd", NumberStyle.DATE),
        ("mmm", NumberStyle.DATE),
        ("[$-409]d/m/yy", NumberStyle.DATE),
        ('dd"."mm', NumberStyle.DATE),
        ("m/d/yy h:mm", NumberStyle.DATETIME),
        ("mm:ss.0", NumberStyle.TIME),
        ("h AM/PM", NumberStyle.TIME),
        ("[h]:mm", NumberStyle.DURATION),
        ("[mm]:ss", NumberStyle.DURATION),
    ],
)
def test_a_number_format_says_what_a_number_is(code: str, shown: NumberStyle) -> None:
    assert number_style(code) is shown


@pytest.mark.parametrize("number_", sorted(BUILTIN_FORMATS))
def test_built_in_formats_are_dates_where_openpyxl_says_so(number_: int) -> None:
    assert (_BUILT_IN.get(number_, NumberStyle.NUMBER) is not NumberStyle.NUMBER) == is_date_format(
        BUILTIN_FORMATS[number_]
    )
