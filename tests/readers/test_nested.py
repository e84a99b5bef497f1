"""Each step on the smallest value that shows it, and on values of another shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from pipeline.readers.nested import exact_number, reshape, strict_json, value_at
from pipeline.schema.reshape import Step

ADAPTER: TypeAdapter[Any] = TypeAdapter(Step)


def made(value: Any, *plan: dict[str, Any]) -> list[Any]:
    return reshape(value, [ADAPTER.validate_json(json.dumps(step)) for step in plan])


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.a", 1),
        ("$.b.c", 2),
        ("$.none", None),
        ("$.a.b", None),
        ("$.l[].x", [1, None, 3]),
        ("$.m[][]", [1, 2, 3]),
        ("$.n[].l[].x", [1, 2]),
        ("$.a[].x", []),
    ],
)
def test_paths(path: str, found: Any) -> None:
    value = {
        "a": 1,
        "b": {"c": 2},
        "l": [{"x": 1}, {}, {"x": 3}],
        "m": [[1, 2], [3]],
        "n": [{"l": [{"x": 1}]}, {"l": [{"x": 2}]}],
    }
    assert value_at(value, path) == found


def test_each_keeps_what_it_is_told_to() -> None:
    value = {"text": "T", "pages": [{"n": 1}, "no object", {"n": 2}]}
    assert made(value, {"do": "each", "list": "$.pages", "keep": {"whole": "$.text"}}) == [
        {"n": 1, "whole": "T"},
        {"n": 2, "whole": "T"},
    ]


def test_where() -> None:
    items = [{"t": "W", "n": 1}, {"t": "L"}, {"n": 3}]
    step = {"do": "where", "list": "$.l", "key": "$.t"}
    assert made({"l": items}, {**step, "equals": "W"}) == [{"l": items[:1]}]
    assert made({"l": items}, step) == [{"l": items[:2]}]
    assert made({"l": items}, {**step, "equals": "W", "into": "w"}) == [{"l": items, "w": items[:1]}]


def test_group_keeps_the_order_and_those_without_a_key() -> None:
    items = [{"p": 2, "n": 1}, {"p": 1}, {"n": 5}, {"p": 2, "n": 3}]
    assert made({"l": items}, {"do": "group", "list": "$.l", "key": "$.p"}) == [
        {"p": 2, "items": [items[0], items[3]]},
        {"p": 1, "items": [items[1]]},
        {"p": None, "items": [items[2]]},
    ]


def test_merge_joins_the_members_of_one_key() -> None:
    items = [{"id": 1, "v": {"a": 1}}, {"x": 0}, {"id": 1, "v": {"a": 9, "b": 2}, "w": 3}]
    assert made({"l": items}, {"do": "merge", "list": "$.l", "key": "$.id"}) == [
        {"l": [{"id": 1, "v": {"a": 1, "b": 2}, "w": 3}, {"x": 0}]}
    ]


def test_join_and_nest() -> None:
    value = {"a": [{"c": 1}, {"c": 2}, {}], "k": [{"id": 1, "n": "x"}]}
    (record,) = made(
        value, {"do": "join", "list": "$.a", "key": "$.c", "other": "$.k", "other_key": "$.id", "into": "k"}
    )
    assert [item["k"] for item in record["a"]] == [{"id": 1, "n": "x"}, None, None]
    value = {"i": [{"id": 1}, {"id": 2}], "a": [{"of": 1, "n": 1}, {"of": 1, "n": 2}]}
    (record,) = made(
        value, {"do": "nest", "list": "$.i", "key": "$.id", "other": "$.a", "other_key": "$.of", "into": "a"}
    )
    assert [[a["n"] for a in item["a"]] for item in record["i"]] == [[1, 2], []]


def test_pick_number_match_concat_and_parse() -> None:
    value = {"l": [{"b": {"x": "1", "y": 2.5}, "t": "bbox 1 -2 3.5", "s": ["a", "b"], "j": '{"k": [1]}'}, {}]}
    steps = (
        {"do": "pick", "list": "$.l", "take": ["$.b.x", "$.b.y", "$.b.z"], "into": "box"},
        {"do": "number", "list": "$.l", "take": "$.b.x", "into": "n"},
        {"do": "match", "list": "$.l", "take": "$.t", "pattern": r"bbox (\S+) (\S+) (\S+)", "into": "m"},
        {"do": "concat", "list": "$.l", "take": ["$.none", "$.s"], "into": "c", "between": "-"},
        {"do": "parse", "list": "$.l", "take": "$.j", "into": "p"},
        {"do": "lift", "list": "$.l", "take": "$.b.x", "into": "first"},
    )
    (record,) = made(value, *steps)
    first, second = record["l"]
    assert first["box"] == [1, 2.5, None]
    assert (first["n"], first["m"], first["c"], first["p"]) == (1, [1, -2, 3.5], "a-b", {"k": [1]})
    assert [second[key] for key in ("box", "n", "m", "c", "p")] == [None] * 5
    assert record["first"] == 1


@pytest.mark.parametrize(
    ("segments", "found"),
    [
        ([{"endIndex": "3"}], "abc"),
        ([{"startIndex": "2", "endIndex": 4}, {"endIndex": 1}], "cda"),
        ([], None),
        ([{"startIndex": 3, "endIndex": 2}], None),
        ([{"endIndex": 99}], None),
        ([{"endIndex": "x"}], None),
        (None, None),
        ([{"startIndex": 1}], None),
        ([{"startIndex": -1, "endIndex": 2}], None),
        (["no object"], None),
    ],
)
def test_anchors_are_within_the_text_or_nothing(segments: Any, found: str | None) -> None:
    step = {"do": "anchor", "list": "$.l", "take": "$.s", "text": "$.t", "into": "w"}
    assert made({"t": "abcd", "l": [{"s": segments}]}, step)[0]["l"][0]["w"] == found


def test_spread_gives_the_first_visible_word_the_beginning() -> None:
    words = [{"text": ""}, {"text": "a"}, {"text": "b"}]
    step = {
        "do": "spread",
        "list": "$.l",
        "take": "$.label",
        "over": "w",
        "into": "tag",
        "outside": ["other"],
        "upper": True,
    }
    value = {
        "l": [{"label": "key", "w": words}, {"label": "other", "w": [{"text": "c"}]}, {"w": [{"text": "d"}]}]
    }
    (record,) = made(value, step)
    assert [[w["tag"] for w in entity["w"]] for entity in record["l"]] == [
        ["I-KEY", "B-KEY", "I-KEY"],
        ["O"],
        ["O"],
    ]
    (record,) = made({"l": [{"label": "key", "w": [{}]}]}, {**step, "scheme": "none", "upper": False})
    assert record["l"][0]["w"] == [{"tag": "key"}]


def test_descend_finds_the_outermost_in_order() -> None:
    inner = {"k": "w", "n": 2}
    value = {"c": [{"k": "w", "n": 1, "c": [inner]}, {"c": [{"k": "w", "n": 3}]}]}
    (record,) = made(value, {"do": "descend", "key": "k", "equals": "w", "into": "w"})
    assert [item["n"] for item in record["w"]] == [1, 3]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["1", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["l", "k", "t", "w", "s"]), inner, max_size=4)
    ),
    max_leaves=15,
)
_STEPS = [
    {"do": "each", "list": "$.l", "keep": {"t": "$.t"}},
    {"do": "where", "list": "$.l[].w", "key": "$.k", "equals": 1},
    {"do": "group", "list": "$.l", "key": "$.k"},
    {"do": "merge", "list": "$.l", "key": "$.k"},
    {"do": "join", "list": "$.l", "key": "$.k", "other": "$.w", "other_key": "$.k", "into": "x"},
    {"do": "nest", "list": "$.l", "key": "$.k", "other": "$.w", "other_key": "$.k", "into": "x"},
    {"do": "pick", "list": "$.l", "take": ["$.k", "$.t[].k"], "into": "x"},
    {"do": "number", "list": "$.l", "take": "$.k", "into": "x"},
    {"do": "parse", "list": "$.l", "take": "$.t", "into": "x"},
    {"do": "match", "list": "$.l", "take": "$.t", "pattern": r"(\d)", "into": "x"},
    {"do": "concat", "list": "$.l[].w", "take": "$.t[].k", "into": "x"},
    {"do": "anchor", "list": "$.l", "take": "$.s", "text": "$.t", "into": "x"},
    {"do": "spread", "list": "$.l", "take": "$.k", "over": "w", "into": "x"},
    {"do": "lift", "list": "$.l", "take": "$.k", "into": "x"},
    {"do": "descend", "key": "k", "equals": "1", "into": "x"},
]


@given(_values, st.sampled_from(_STEPS), st.sampled_from(_STEPS))
def test_no_value_breaks_a_step(value: Any, first: dict[str, Any], second: dict[str, Any]) -> None:
    records = made(value, first, second)
    json.dumps(records)


@pytest.mark.parametrize(
    "wrong",
    [
        {"do": "eval"},
        {"do": "where", "list": "l", "key": "$.k"},
        {"do": "match", "list": "$.l", "take": "$.t", "pattern": "(", "into": "x"},
        {"do": "lift", "list": "$.l", "take": "$.t", "into": "x", "more": 1},
    ],
)
def test_a_step_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        made({}, wrong)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12", 12),
        (" -1.50 ", -1.5),
        ("1e3", 1000.0),
        ("1_0", "1_0"),
        ("٣", "٣"),
        ("", ""),
        ("0x1", "0x1"),
        (None, None),
        ("nan", "nan"),
    ],
)
def test_numbers_that_texts_spell(text: str | None, found: Any) -> None:
    assert exact_number(text) == found


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "NaN", "[Infinity]", "{", ""])
def test_json_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_json(text)
