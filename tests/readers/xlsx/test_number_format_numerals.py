"""Stored numbers as text: all at once, and one by one; decimal is the oracle."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.readers.xlsx.number_format import (
    changed_numbers,
    is_shown_as_stored,
    number_text,
    shortest_text,
)


@given(st.integers(-(10**40), 10**40))
def test_an_integer_keeps_every_digit(value: int) -> None:
    assert number_text(str(value)) == str(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(1.7976931348623157e308)
@example(1e-9)
@example(1e21)
def test_a_fraction_is_the_same_double_again(value: float) -> None:
    text = shortest_text(value)
    assert float(text) == value
    assert Decimal(text) == Decimal(repr(value))
    assert ("E" in text) == (value != 0 and not 1e-9 <= abs(value) < 1e21)


@pytest.mark.parametrize("raw", ["", "abc", "NaN", "inf", "1e999", "1,5", "0x10", "1_000", "١", "--1", "1e"])
def test_what_is_no_finite_number_has_no_text(raw: str) -> None:
    assert number_text(raw) is None


PLAIN = re.compile(r"0|-?[1-9][0-9]*|-?(?:0|[1-9][0-9]{0,9})\.[0-9]{0,4}[1-9]")
STORED = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.floats(-1e9, 1e9).map(lambda value: f"{value:.16G}"),
    st.decimals(-(10**6), 10**6, allow_nan=False, places=3).map(str),
    st.integers(-(10**18), 10**18).map(str),
    st.text(st.sampled_from("0123456789.-+eE "), max_size=9),
    st.text(st.sampled_from("01.-"), max_size=5),
    st.sampled_from(["0", "-0", "0.0", "5.000000", "-0.0000001", "0.12345678", "é1", ""]),
)


@given(st.lists(STORED, max_size=12), st.integers(0, 3))
def test_many_numbers_have_the_texts_that_each_has(stored: list[str], start: int) -> None:
    values = pa.array(stored, pa.string()).slice(start)
    places, texts, bad = changed_numbers(values)
    shown: list[str | None] = values.to_pylist()
    for place, text in zip(places.tolist(), texts.to_pylist(), strict=True):
        shown[place] = text
    for place in bad.tolist():
        shown[place] = None
    assert shown == [number_text(value) for value in stored[start:]]


@given(st.lists(STORED, max_size=12))
def test_what_is_is_shown_as_it_is_stored_is_told_by_its_bytes(stored: list[str]) -> None:
    shown_as_stored = is_shown_as_stored(pa.array(stored, pa.string()))
    assert shown_as_stored.tolist() == [PLAIN.fullmatch(value) is not None for value in stored]
