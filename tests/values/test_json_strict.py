"""The strict JSON parser."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.reasons import Reason
from pipeline.values import json_strict
from pipeline.values.json_strict import NotJson, parse_strict

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_is_written_again_is_the_same_value(value: object) -> None:
    tree = parse_strict(json.dumps(value).encode(), 64)
    assert json.loads(json_strict.json_text(tree)) == value


def test_numbers_keep_their_spelling() -> None:
    assert (
        json_strict.json_text(parse_strict(b"[1.0, 1e5, 10000000000000000000000, -0]", 9))
        == "[1.0, 1e5, 10000000000000000000000, -0]"
    )


@given(st.text(st.sampled_from('{}[]":,\\ 01eEnN-+.tfrual\n'), max_size=12))
def test_it_accepts_what_python_accepts_as_strict_json(text: str) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
        good = True
    except ValueError:
        good = False
    try:
        tree = parse_strict(text.encode(), 64)
        assert good == (not list(json_strict.non_finite_literals(tree)))
    except NotJson as fault:
        assert not good and fault.reason is Reason.JSON_INVALID


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (b'{"a":1,"a":2}', [("$.a", "a")]),
        (b'{"x":[{"b":1,"c":{"d":0,"d":1},"b":2}]}', [("$.x[0].b", "b"), ("$.x[0].c.d", "d")]),
        (b'{"a":1,"\\u0061":2}', [("$.a", "a")]),
        (b'[{"a":1},{"a":1}]', []),
    ],
)
def test_repeated_keys_are_found_at_any_depth(text: bytes, paths: list[tuple[str, str]]) -> None:
    assert list(json_strict.repeated_keys(parse_strict(text, 9))) == paths


def test_literals_that_are_no_json_are_found() -> None:
    tree = parse_strict(b'{"a":NaN,"b":[1,-Infinity]}', 9)
    assert list(json_strict.non_finite_literals(tree)) == [("$.a", "NaN"), ("$.b[1]", "-Infinity")]


@pytest.mark.parametrize("brackets", ["[", '{"a":'])
def test_nesting_is_limited_before_anything_is_built(brackets: str) -> None:
    close = {"[": "]", '{"a":': "}"}[brackets]
    good = brackets * 64 + "1" + close * 64
    assert parse_strict(good.encode(), 64)
    for depth in (65, 100_000):
        with pytest.raises(NotJson) as caught:
            parse_strict((brackets * depth + "1" + close * depth).encode(), 64)
        assert (caught.value.reason, caught.value.found) == (Reason.JSON_TOO_DEEP, str(depth))


def test_brackets_inside_of_strings_are_no_nesting() -> None:
    assert parse_strict(json.dumps("[" * 1000 + '"' + "\\").encode(), 64)


def test_the_place_of_a_break_is_named_without_the_text_around() -> None:
    with pytest.raises(NotJson) as caught:
        parse_strict(b'{"secret": tru}', 64)
    assert caught.value.found == "Expecting value at column 12"
    with pytest.raises(NotJson) as caught:
        parse_strict(b'{"a":\n1 2}', 64)
    assert caught.value.found == "Expecting ',' delimiter at line 2, column 3"
