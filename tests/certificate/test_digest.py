"""Canonical bytes, and a root that binds every name, digest, count and word."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.certificate.digest import canonical, digest_of, floats_as_text, root_digest

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
FILES = st.dictionaries(
    st.text(st.characters(), min_size=1, max_size=6),
    st.tuples(st.integers(0, 3).map(lambda n: f"{n:064x}"), st.integers(0, 3)),
    max_size=4,
)


def root(files: dict[str, tuple[str, int]], predicate: Any = None) -> str:
    return root_digest([(name, *facts) for name, facts in files.items()], canonical(predicate or {}))


@given(PLAIN)
def test_canonical_bytes_are_plain_json_of_the_value(value: Any) -> None:
    content = canonical(value)
    assert json.loads(content) == value
    assert content.isascii()
    assert content == canonical(json.loads(content))


@given(st.dictionaries(st.text(max_size=4), PLAIN, min_size=2))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


@pytest.mark.parametrize("value", [0.5, {"a": [1.0]}, {"a": {"b": float("nan")}}])
def test_a_float_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="no floats"):
        canonical(value)


@given(st.floats(allow_nan=False))
def test_a_float_is_written_by_its_exact_text(value: float) -> None:
    assert float(floats_as_text({"a": (value,)})["a"][0]) == value
    assert digest_of(value) == digest_of(repr(value))


@given(FILES, FILES)
def test_two_lists_of_files_have_one_root_only_if_they_are_equal(
    a: dict[str, Any], b: dict[str, Any]
) -> None:
    assert (root(a) == root(b)) == (a == b)
    assert root(a) == root(dict(reversed(a.items())))


@given(PLAIN, PLAIN)
def test_the_root_binds_everything_else_that_is_said(a: Any, b: Any) -> None:
    same = canonical(a) == canonical(b)
    assert (root_digest([], canonical({"x": a})) == root_digest([], canonical({"x": b}))) == same


def test_a_name_cannot_take_bytes_of_what_follows() -> None:
    """Names are length-prefixed: "a" + digest is no other name."""
    zero = "00" * 32
    assert root({"a": (zero, 0)}) != root({"a\0": (zero, 0)})
    assert root({"ab": (zero, 0)}) != root({"a": (zero, 0), "b": (zero, 0)})
