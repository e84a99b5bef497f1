"""The typed decoder and the strict parser agree on every record; an independent oracle says what is right."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.batch import Mask
from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FindingCollector
from pipeline.reasons import Reason
from pipeline.schema.fields import MESSAGE_KEYS
from pipeline.schema.model import schema_of
from pipeline.values.json_decode import Decoder
from pipeline.values.paths import field_paths

TEXT, NUMBER, INTEGER = FieldType(Kind.TEXT), FieldType(Kind.NUMBER), FieldType(Kind.INTEGER)
PERSON = FieldType(
    Kind.STRUCT,
    fields=(
        ("name", TEXT),
        ("age", FieldType(Kind.INTEGER, optional=True)),
        ("tags", FieldType(Kind.LIST, item=TEXT, optional=True)),
    ),
)
FIELDS = (
    Field("id", "id", TEXT),
    Field("n", "n", INTEGER, required=False),
    Field("x", "x", NUMBER, required=False),
    Field("flag", "flag", FieldType(Kind.BOOLEAN), required=False),
    Field("people", "people", FieldType(Kind.LIST, item=PERSON), required=False),
    Field("width", "$.page.width", NUMBER, required=False),
    Field("any", "any", FieldType(Kind.JSON), required=False),
    Field("@words", "$.lines[].text", FieldType(Kind.WORDS), required=False, wrong=Reason.WORD_NOT_TEXT),
    Field("@boxes", "$.lines[].box", FieldType(Kind.BOXES), required=False, wrong=Reason.BBOX_UNPARSED),
    Field("@messages", "turns", FieldType(Kind.MESSAGES), required=False, message_keys=MESSAGE_KEYS),
)


SCHEMA = schema_of(
    {"version": 1, "name": "x", "kind": "table", "files": ("*",), "columns": {"id": {}}, "table": {}}
)


@cache
def decoder_of(fields: tuple[Field, ...], depth: int) -> Decoder:
    return Decoder(field_paths(fields), SCHEMA.policy, depth)


def decode(
    lines: list[bytes], fields: tuple[Field, ...] = FIELDS, depth: int = 64
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Rows of values, and (record, reason, column, path) of the findings."""
    hits = FindingCollector(SCHEMA.policy)
    columns = decoder_of(fields, depth)(
        pa.array(lines, pa.binary()), np.arange(len(lines), dtype=np.int64), hits
    )
    frame = pl.DataFrame([column.alias(field.name) for column, field in zip(columns, fields, strict=True)])
    found = [
        (record, item.reason.slug, item.column, path)
        for item in hits.findings().items
        for record, path in zip(item.ids.tolist(), item.paths, strict=True)
    ]
    return frame.to_dicts(), sorted(found)


def exactly(lines: list[bytes], fields: tuple[Field, ...] = FIELDS) -> tuple[list[dict[str, Any]], list[Any]]:
    """The same by the strict parser alone."""

    def nothing(self: Decoder, shape: Any, data: bytes, offsets: Any) -> tuple[list[Any], Mask, Mask]:
        every = np.ones(len(offsets) - 1, bool)
        return [], every, every

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Decoder, "_decode_typed", nothing)
        return decode(lines, fields)


SCALAR = st.sampled_from(
    [
        "null",
        "true",
        "1",
        "1.0",
        "-0",
        "9223372036854775808",
        "1e400",
        "NaN",
        '"t"',
        '"é\\n"',
        '"\\ud83d"',
        "[]",
        "{}",
        '":"',
        '" :"',
    ]
)
TURNS = [
    '{"role":"user","content":"a"}',
    '{"from":"human","value":"b"}',
    '{"role":"user"}',
    '{"role":null,"content":null}',
    '{"role":"a","content":["x",{"type":"text"}],"train":true}',
    '{"role":"a","content":5,"weight":1}',
    '{"content":{"a":1.0}}',
    '{"role":"a","content":null,"tool_calls":[{"id":1,"id":2}]}',
    '{"role":"a","content":"x","role":"b"}',
    '{"role":"a","from":"b","content":"x","other":[1]}',
    "7",
]
BOXES = [
    "[1,2,3,4]",
    "[1.5,2]",
    "[]",
    "[null,1]",
    '[{"x":1},{"y":2}]',
    "[[1,2],[3,4]]",
    "5",
    '"1"',
    "[true]",
    "null",
]
PEOPLE = [
    '{"name":"a"}',
    '{"name":"b","age":3,"tags":["x"]}',
    '{"age":1}',
    '{"name":1}',
    '{"name":"c","name":"d"}',
    "null",
]
PAGES = [
    "{}",
    '{"width":2}',
    '{"width":"2"}',
    "null",
    "[]",
    '{"width":1,"width":2}',
    '{"width":3,"z":{"q":1}}',
]
ANY = ['{"a": 1}', '{"a":1,"a":2}', "[1, 2.50]", '{"a":[{"b":1,"b":1}]}']


def listed(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, max_size=3).map(lambda parts: f"[{','.join(parts)}]")


LINES = st.tuples(SCALAR, st.sampled_from(BOXES)).map(lambda pair: f'{{"text":{pair[0]},"box":{pair[1]}}}')
MEMBERS = st.one_of(
    st.tuples(st.sampled_from(["n", "x", "flag", "any", "other", "id"]), SCALAR),
    st.tuples(st.just("people"), listed(st.sampled_from(PEOPLE))),
    st.tuples(st.just("page"), st.sampled_from(PAGES)),
    st.tuples(st.just("lines"), listed(LINES)),
    st.tuples(st.just("turns"), listed(st.sampled_from(TURNS))),
    st.tuples(st.just("any"), st.sampled_from(ANY)),
)
RECORD = st.lists(MEMBERS, max_size=5).map(
    lambda m: "{" + ",".join(f'"{k}":{v}' for k, v in [("id", '"r"'), *m]) + "}"
)
LINE = st.one_of(
    RECORD,
    RECORD,
    RECORD,
    st.sampled_from(
        ["[1]", "{", "{}", '{"id":"r"} {"id":"s"}', '{"id":"r"},{"id":"s"}', ' {"id":"r"} ', "7"]
    ),
)


@settings(max_examples=500)
@given(st.lists(LINE, min_size=1, max_size=5))
def test_the_typed_decoder_agrees_with_the_exact_parser(lines: list[str]) -> None:
    raw = [line.encode() + b"\n" for line in lines]
    assert decode(raw) == exactly(raw)


@settings(max_examples=300)
@given(st.lists(LINE, min_size=1, max_size=4), st.data())
def test_and_so_it_does_when_bytes_are_broken(lines: list[str], data: st.DataObject) -> None:
    raw = [bytearray(line.encode() + b"\n") for line in lines]
    for line in raw:
        at = data.draw(st.integers(0, len(line) - 1))
        line[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    texts = [bytes(line) for line in raw]
    assert decode(texts) == exactly(texts)


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from(['{"id":"a"', "}", ',"n":1', "\n", '{"id":"b","n":2}', "{}", "]", ',{"id":"c"}']),
        max_size=8,
    )
)
def test_no_record_reaches_into_the_next(parts: list[str]) -> None:
    lines = [line.encode() + b"\n" for line in "".join(parts).split("\n") if line.strip()]
    if lines:
        assert decode(lines) == exactly(lines)


# ── an oracle of its own ─────────────────────────────────────────────────────────────────────────────────
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=4,
)
PLAIN = (Field("id", "id", TEXT), Field("n", "n", INTEGER), Field("x", "x", NUMBER))


@settings(max_examples=300)
@given(
    st.lists(
        st.fixed_dictionaries({}, optional={"id": VALUE, "n": VALUE, "x": VALUE, "z": VALUE}),
        min_size=1,
        max_size=4,
    )
)
def test_a_record_is_good_when_python_says_so(records: list[dict[str, Any]]) -> None:
    rows, found = decode([json.dumps(record).encode() for record in records], PLAIN)
    bad = {record for record, reason, *_ in found if Reason.of(reason) is not Reason.INTEGER_FROM_DECIMAL}
    for i, record in enumerate(records):
        n, x = record.get("n"), record.get("x")
        whole = (
            isinstance(n, (int, float)) and not isinstance(n, bool) and -(2**63) <= n < 2**63 and n == int(n)
        )
        number = isinstance(x, float) or (
            isinstance(x, int) and not isinstance(x, bool) and -(2**63) <= x < 2**63
        )
        finite = "NaN" not in json.dumps(record) and "Infinity" not in json.dumps(record)
        small = whole and (isinstance(n, int) or abs(n) < 2**53)
        good = isinstance(record.get("id"), str) and small and number and finite
        assert (i not in bad) == good, (record, found)
        if good:
            assert rows[i] == {"id": record["id"], "n": int(n), "x": float(x)}


# ── single rules ─────────────────────────────────────────────────────────────────────────────────────────
def hits(line: str, fields: tuple[Field, ...] = FIELDS, depth: int = 64) -> list[tuple[str, str, str]]:
    """(reason, column, path) of what is found on one record."""
    good = b'{"id":"r"}\n'
    rows, found = decode([good, line.encode() + b"\n", good], fields, depth)
    assert rows[0]["id"] == rows[2]["id"] == "r"
    assert all(record == 1 for record, *_ in found)
    return [hit[1:] for hit in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"id":"r","id":"s"}', ("json_duplicate_key", "", "$.id")),
        ('{"id":"r","other":1,"other":2}', ("json_duplicate_key", "", "$.other")),
        ('{"id":"r","any":{"a":{"b":1,"b":2}}}', ("json_duplicate_key", "any", "$.any.a.b")),
        ('{"id":"r","x":NaN}', ("json_non_finite", "x", "$.x")),
        ('{"id":"r","other":[0,-Infinity]}', ("json_non_finite", "", "$.other[1]")),
        ('{"id":"r","n":9223372036854775808}', ("json_integer_overflow", "n", "$.n")),
        ('{"id":"r","x":9223372036854775808}', ("json_integer_overflow", "x", "$.x")),
        ('{"id":"r","x":1e400}', ("value_not_finite", "x", "$.x")),
        ('{"id":"r","n":1.5}', ("value_type", "n", "$.n")),
        ('{"id":"r","n":true}', ("value_type", "n", "$.n")),
        ('{"id":"r","n":"1"}', ("value_type", "n", "$.n")),
        ('{"id":"r","n":2.0}', ("integer_from_decimal", "n", "$.n")),
        ('{"id":5}', ("value_type", "id", "$.id")),
        ('{"id":"\\ud83d"}', ("text_invalid_unicode", "id", "$.id")),
        ('{"id":"r","people":[{"name":"a"},{"age":1}]}', ("value_missing", "people", "$.people[1].name")),
        (
            '{"id":"r","lines":[{"text":"a","box":[1,2]},{"box":[1]}]}',
            ("word_not_text", "@words", "$.lines[1].text"),
        ),
        (
            '{"id":"r","lines":[{"text":"a","box":[1,null]}]}',
            ("bbox_not_finite", "@boxes", "$.lines[0].box[1]"),
        ),
        ('{"id":"r","lines":[{"text":"a","box":"1,2"}]}', ("bbox_unparsed", "@boxes", "$.lines[0].box")),
        ('{"id":"r","turns":["hello"]}', ("value_type", "@messages", "$.turns[0]")),
        ('{"id":"r","turns":{"role":"user"}}', ("value_type", "@messages", "$.turns")),
        ("[]", ("json_not_object", "", "$")),
        ('{"id":"r"', ("json_invalid", "", "")),
    ],
)
def test_each_fault_is_named_with_its_path(line: str, expected: tuple[str, str, str]) -> None:
    assert hits(line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        '{"id":"r","other":{"a":[{"a":1}]},"z":null}',
        '{"id":"a \\"id\\": b","other":":\\":"}',
        '{"id" : "r", "n" :1}',
        '{"\\u0069d":"r"}',
        '{"id":"\\ud83d\\ude00","x":0.1234567890123456789012}',
        '{"id":"12345678901234567890","x":-9.2e18}',
        '{"id":"r","page":null,"lines":[],"turns":[],"people":[]}',
        '{"id":"r","n":9223372036854775807,"x":9223372036854775807}',
        '{"id":"r","other":9223372036854775808}',
    ],
)
def test_near_misses_pass(line: str) -> None:
    assert hits(line) == []


@pytest.mark.parametrize("key", ["n", "other", "any"])
@pytest.mark.parametrize(
    ("levels", "deep"), [(62, False), (63, False), (64, True), (5000, True), (100_000, True)]
)
def test_nesting_is_limited_wherever_it_stands(key: str, levels: int, deep: bool) -> None:
    line = f'{{"id":"r","{key}":{"[" * levels}1{"]" * levels}}}'
    found = [reason for reason, *_ in hits(line)]
    assert ("json_too_deep" in found) == deep


def test_two_fields_may_want_different_things_of_one_value() -> None:
    fields = (
        Field("id", "id", TEXT),
        Field("raw", "turns", FieldType(Kind.JSON)),
        Field("@messages", "turns", FieldType(Kind.MESSAGES), message_keys=MESSAGE_KEYS),
    )
    rows, found = decode([b'{"id":"a","turns":[{"role":"user","content":"x"}]}\n'], fields)
    assert not found
    assert rows[0]["raw"] == '[{"role": "user", "content": "x"}]'
    assert rows[0]["@messages"][0]["role"] == "user"


@pytest.mark.parametrize(
    ("content", "kind", "shown"),
    [
        ('"x"', "text", "x"),
        ("null", "null", None),
        ("5.50", "number", "5.50"),
        ("true", "boolean", "true"),
        ('[{"type": "text"}]', "parts", '[{"type": "text"}]'),
        ('{"a": 1.0}', "object", '{"a": 1.0}'),
    ],
)
def test_what_stands_where_a_turns_text_should_is_kept(content: str, kind: str, shown: str | None) -> None:
    rows, found = decode(
        [b'{"id":"r","turns":[{"role":"user","content":%s},{"role":3}]}\n' % content.encode()]
    )
    assert not found
    first, second = rows[0]["@messages"]
    assert (first["content_kind"], first["content"], first["role"]) == (kind, shown, "user")
    assert (second["content_kind"], second["content"], second["role"]) == ("missing", None, None)


def test_tool_calls_are_kept_as_json_and_the_rest_of_a_turn_in_its_type() -> None:
    turn = b'{"role":"assistant","tool_calls":[{"id":"1","n":1.0}],"train":false,"weight":1,"name":"bot",'
    turn += b'"tool_call_id":"c"}'
    rows, found = decode([b'{"id":"r","turns":[%s]}\n' % turn])
    assert not found
    assert rows[0]["@messages"][0] == {
        "role": "assistant",
        "content": None,
        "content_kind": "missing",
        "name": "bot",
        "train": False,
        "weight": 1.0,
        "tool_calls": '[{"id": "1", "n": 1.0}]',
        "tool_call_id": "c",
    }


def test_columns_of_the_same_type_whatever_the_rows_hold() -> None:
    for lines in (
        [],
        [b'{"id":"r"}\n'],
        [b"broken\n"],
        [b'{"id":"r","people":[],"any":null,"lines":[],"turns":[]}\n'],
    ):
        decoded = decode(lines)[0]
        assert len(decoded) == len(lines)


def test_a_null_is_no_value_of_a_required_json_field() -> None:
    fields = (
        Field("meta", "meta", FieldType(Kind.JSON)),
        Field("more", "more", FieldType(Kind.JSON), required=False),
    )
    lines = [
        b'{"meta":null,"more":1}',
        b'{"meta": null }',
        b'{"more":null}',
        b'{"meta":"null","more":null}',
        b'{"meta":[null]}',
    ]
    values, found = decode(lines, fields)
    assert found == [
        (0, "value_missing", "meta", "$.meta"),
        (1, "value_missing", "meta", "$.meta"),
        (2, "value_missing", "meta", "$.meta"),
    ]
    assert [row["meta"] for row in values] == [None, None, None, '"null"', "[null]"]
    assert values[3]["more"] is None
