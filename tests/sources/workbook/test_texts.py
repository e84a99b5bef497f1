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

from pipeline.sources.workbook.styles import _BUILT_IN, Shown, shown_by
from pipeline.sources.workbook.texts import LAST_DAY, dates


def one_date(serial: str, shown: Shown, *, date1904: bool = False) -> str:
    return dates(pa.array([serial]), np.array([shown], np.uint8), date1904=date1904)[0]


@given(st.integers(61, LAST_DAY - 1), st.integers(0, 86_399))
def test_moments_are_those_of_openpyxl(day: int, second: int) -> None:
    serial = day + second / 86_400
    expected = from_excel(serial, CALENDAR_WINDOWS_1900)
    assert isinstance(expected, datetime.datetime)
    whole = (expected + datetime.timedelta(microseconds=500)).replace(microsecond=0)
    assert one_date(repr(serial), Shown.DATETIME) == whole.isoformat()


@given(st.integers(1, LAST_DAY - 1463))
def test_days_of_1904_are_those_of_openpyxl(day: int) -> None:
    expected = from_excel(day, CALENDAR_MAC_1904)
    assert isinstance(expected, datetime.datetime)
    assert one_date(str(day), Shown.DATE, date1904=True) == expected.date().isoformat()


@pytest.mark.parametrize(
    ("serial", "shown", "text"),
    [
        ("59", Shown.DATE, "1900-02-28"),
        ("60.25", Shown.DATETIME, "1900-02-29T06:00:00"),
        ("61", Shown.DATE, "1900-03-01"),
        ("0", Shown.TIME, "00:00:00"),
        ("45292", Shown.TIME, "2024-01-01T00:00:00"),
        ("0.000011574", Shown.TIME, "00:00:01"),
        ("0.00000289352", Shown.TIME, "00:00:00.250"),
        ("45292.00000289352", Shown.DATETIME, "2024-01-01T00:00:00.250"),
        ("100.5", Shown.DURATION, "2412:00:00"),
        ("2958465", Shown.DATE, "9999-12-31"),
        ("2958466", Shown.DATE, "2958466"),
        ("-1", Shown.DATE, "-1"),
        ("-1", Shown.DURATION, "-1"),
        ("1E+300", Shown.DATE, "1E+300"),
    ],
)
def test_moments_at_the_edges_of_the_calendar(serial: str, shown: Shown, text: str) -> None:
    assert one_date(serial, shown) == text


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("General", Shown.NUMBER),
        ("0.00E+00", Shown.NUMBER),
        ('0.0 "days"', Shown.NUMBER),
        (r"#,##0\d", Shown.NUMBER),
        ("[Red]0", Shown.NUMBER),
        ("_(* #,##0_)", Shown.NUMBER),
        ("0;[Red]d", Shown.NUMBER),
        ("yyyy-mm-dd", Shown.DATE),
        ("mmm", Shown.DATE),
        ("[$-409]d/m/yy", Shown.DATE),
        ('dd"."mm', Shown.DATE),
        ("m/d/yy h:mm", Shown.DATETIME),
        ("mm:ss.0", Shown.TIME),
        ("h AM/PM", Shown.TIME),
        ("[h]:mm", Shown.DURATION),
        ("[mm]:ss", Shown.DURATION),
    ],
)
def test_a_number_format_says_what_a_number_is(code: str, shown: Shown) -> None:
    assert shown_by(code) is shown


@pytest.mark.parametrize("number_", sorted(BUILTIN_FORMATS))
def test_built_in_formats_are_dates_where_openpyxl_says_so(number_: int) -> None:
    assert (_BUILT_IN.get(number_, Shown.NUMBER) is not Shown.NUMBER) == is_date_format(
        BUILTIN_FORMATS[number_]
    )
