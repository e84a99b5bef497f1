"""Normalization is exact: held against fractions of the decimals as written."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.stages.layout.normalize import Sums, thousandths

decimals = st.one_of(
    st.integers(-5000, 5000).map(float),
    st.decimals(-5000, 5000, places=3, allow_nan=False).map(float),
    st.decimals(-3, 3, places=12, allow_nan=False).map(float),
    st.floats(-5000, 5000, allow_nan=False),
    st.floats(-1e15, 1e15, allow_nan=False),
)
sides = st.one_of(
    st.integers(1, 5000).map(float),
    st.sampled_from([1.0, 100.0, 1000.0, 8.5, 11.0, 8.27, 11.69, 595.276, 841.89, 0.3]),
    st.floats(1e-3, 1e6, allow_nan=False),
)


def _written(value: float) -> Fraction:
    """Oracle: the shortest decimal that reads as this float, by way of decimal.Decimal."""
    return Fraction(Decimal(repr(value)))


def _sums(base: float, extra: float, offset: float, sign: float) -> Sums:
    parts = [np.array([[part]]) if part else None for part in (extra, offset)]
    return Sums(np.array([[base]]), *parts, sign=None if sign == 1 else np.array([sign]))


@given(
    decimals, decimals, decimals, st.sampled_from([1.0, -1.0]), sides, st.sampled_from(["truncate", "round"])
)
@example(0.57, 0.0, 0.0, 1.0, 1.0, "truncate")  # 1000 * 0.57 is 569.9999999999999 as a float
@example(0.1, 0.2, 0.0, 1.0, 1.0, "truncate")  # 0.1 + 0.2 is 0.30000000000000004
@example(0.85, 0.0, 0.0, 1.0, 8.5, "truncate")
@example(39.6, 0.0, 792.0, -1.0, 792.0, "truncate")
@example(0.0005, 0.0, 0.0, 1.0, 1.0, "round")  # half of one, to the even 0
@example(0.0015, 0.0, 0.0, 1.0, 1.0, "round")
def test_thousandths_are_those_of_the_decimals_as_written(
    base: float, extra: float, offset: float, sign: float, side: float, rounding: str
) -> None:
    value = (_written(offset) + int(sign) * (_written(base) + _written(extra))) * 1000 / _written(side)
    expected = math.floor(value) if rounding == "truncate" else round(value)
    if abs(expected) >= 2**53:
        return  # far beyond any page; only its being beyond is judged
    got = thousandths(_sums(base, extra, offset, sign), np.array([[side]]), rounding)  # type: ignore[arg-type]
    assert got.tolist() == [[expected]]


@given(st.integers(1, 4000), st.integers(0, 4000))
def test_whole_pixels_are_the_truncated_quotient(width: int, x: int) -> None:
    got = thousandths(_sums(float(x), 0.0, 0.0, 1.0), np.array([[float(width)]]), "truncate")
    assert got.tolist() == [[1000 * x // width]]


@pytest.mark.parametrize("rounding", ["truncate", "round"])
@given(st.lists(st.floats(0, 1, allow_nan=False), min_size=2, max_size=30))
def test_order_is_kept(rounding: str, values: list[float]) -> None:
    ordered = np.sort(np.array(values))[None, :]
    got = thousandths(Sums(ordered), np.ones_like(ordered), rounding)  # type: ignore[arg-type]
    assert (np.diff(got[0]) >= 0).all()
    assert got.min() >= 0
    assert got.max() <= 1000
