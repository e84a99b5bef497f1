"""A null inside lists and objects of JSON is no value, whichever way a record is read."""

from __future__ import annotations

import json

import pytest

from pipeline.fields import Field, FieldType, Kind
from tests.values.test_json_decode import decode

JSON = FieldType(Kind.JSON)
MAY_LACK = FieldType(Kind.JSON, optional=True)
LIST = FieldType(Kind.LIST, item=JSON)
OBJECT = FieldType(Kind.STRUCT, fields=(("must", JSON), ("may", MAY_LACK)))


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    ("type_", "value", "reason", "path"),
    [
        (LIST, [1, None], "value_type", "$.x[1]"),
        (OBJECT, {"must": None, "may": 1}, "value_missing", "$.x.must"),
        (FieldType(Kind.LIST, item=OBJECT), [{"must": 1}, {"must": None}], "value_missing", "$.x[1].must"),
        (FieldType(Kind.LIST, item=LIST), [[1], [None]], "value_type", "$.x[1][0]"),
        (FieldType(Kind.STRUCT, fields=(("of", LIST),)), {"of": [None]}, "value_type", "$.x.of[0]"),
    ],
)
def test_a_null_that_is_no_value_is_a_finding(
    type_: FieldType, value: object, reason: str, path: str, required: bool
) -> None:
    values, found = decode([_line(value)], (Field("x", "x", type_, required=required),))
    assert found == [(0, reason, "x", path)]
    assert values[0]["x"] is None


@pytest.mark.parametrize(
    ("type_", "value", "kept"),
    [
        (LIST, ["null", [None], {"a": None}], ['"null"', "[null]", '{"a": null}']),
        (OBJECT, {"must": [None], "may": None}, {"must": "[null]", "may": None}),
        (OBJECT, {"must": "null"}, {"must": '"null"', "may": None}),
        (LIST, [], []),
    ],
)
def test_a_null_below_a_value_of_json_and_a_member_that_may_lack_are_kept(
    type_: FieldType, value: object, kept: object
) -> None:
    values, found = decode([_line(value)], (Field("x", "x", type_),))
    assert (values[0]["x"], found) == (kept, [])


def test_a_null_at_the_end_of_a_path_through_lists_is_a_finding() -> None:
    fields = (Field("x", "$.pages[].note", LIST),)
    _, found = decode([b'{"pages":[{"note":1},{"note":null}]}', b'{"pages":[{"note":1}]}'], fields)
    assert found == [(0, "value_type", "x", "$.pages[1].note")]


def _line(value: object) -> bytes:
    return json.dumps({"x": value}).encode()
