"""Cast: exactly the columns of the fields, one reason for each thing that does not fit, whatever the source."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from pipeline.batch import Batch
from pipeline.errors import SchemaError
from pipeline.fields import Field, FieldType, Kind
from pipeline.reasons import Policy
from pipeline.schema.fields import MESSAGE_KEYS
from pipeline.stages.cast import Cast
from tests.readers.tables import TEXT, schema
from tests.stages.cast_cases import (
    BOOLEAN,
    BOXES,
    INTEGER,
    MESSAGES,
    NUMBER,
    TURN,
    WORDS,
    from_csv,
    from_frame,
    from_json,
    said,
    typed,
)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_number_where_a_turn_should_be_is_taken_as_shown_and_noted(tmp_path: Path) -> None:
    result = from_json(
        tmp_path, (TURN,), '{"prompt":42}', '{"prompt":5.0}', '{"prompt":true}', '{"prompt":"x"}'
    )
    assert [row["@prompt"] for row in result.frame] == ["42", "5.0", None, "x"]
    assert result.reasons == [(1, "content_as_shown"), (2, "content_as_shown"), (3, "content_not_text")]
    assert len(result.good) == 3


def test_as_shown_may_be_refused_by_policy(tmp_path: Path) -> None:
    policies = {"content_as_shown": "quarantine"}
    assert from_json(tmp_path, (TURN,), '{"prompt":42}', policies=policies).good == []


def test_a_column_takes_numbers_and_booleans_as_shown_only_when_it_says_so(tmp_path: Path) -> None:
    lines = ('{"a":1.50}', '{"a":false}', '{"a":[]}')
    shown = from_json(tmp_path, (typed("a", TEXT, as_shown=True),), *lines)
    assert [row["a"] for row in shown.frame] == ["1.50", "false", None]
    assert shown.reasons == [(1, "value_as_shown"), (2, "value_as_shown"), (3, "value_type")]
    plain = from_json(tmp_path, (typed("a", TEXT),), *lines)
    assert plain.reasons == [(1, "value_type"), (2, "value_type"), (3, "value_type")]


def test_missing_null_and_blank_are_the_fields_own_reason(tmp_path: Path) -> None:
    assert [h[1:4] for h in from_json(tmp_path, (TURN,), "{}", '{"prompt":null}').hits] == [
        ("content_empty", "$.prompt", "missing"),
        ("content_empty", "$.prompt", "null"),
    ]
    assert from_csv(tmp_path, (TURN,), 'prompt,b\n,x\n"",x\n').reasons == [
        (2, "content_empty"),
        (3, "content_empty"),
    ]


@pytest.mark.parametrize("text", ["a\\u0000b", "a\ufffdb", "a\\uD83Db"])
def test_nul_replacement_characters_and_lone_surrogates_are_found(tmp_path: Path, text: str) -> None:
    field = typed("a", TEXT)
    assert from_json(tmp_path, (field,), f'{{"a":"{text}"}}').reasons == [(1, "text_invalid_unicode")]
    repaired = from_json(tmp_path, (field,), f'{{"a":"{text}"}}', policies={"text_invalid_unicode": "repair"})
    assert repaired.good == [{"a": {"a\\u0000b": "ab"}.get(text, "a\ufffdb")}]
    assert repaired.reasons == [(1, "text_invalid_unicode")]


def test_invalid_characters_are_found_in_cells_lists_and_structs(tmp_path: Path) -> None:
    assert from_csv(tmp_path, (typed("a", TEXT),), "a,b\nx\x00y,1\nok,2\n").reasons == [
        (2, "text_invalid_unicode")
    ]
    lists = typed("a", FieldType(Kind.LIST, item=TEXT))
    assert from_json(tmp_path, (lists,), '{"a":["x","\\u0000"]}', '{"a":["é"]}').reasons == [
        (1, "text_invalid_unicode")
    ]
    struct = typed(
        "a", FieldType(Kind.STRUCT, fields=(("b", TEXT), ("c", FieldType(Kind.TEXT, optional=True))))
    )
    repaired = from_json(
        tmp_path, (struct,), '{"a":{"b":"x\\u0000"}}', policies={"text_invalid_unicode": "repair"}
    )
    assert repaired.good == [{"a": {"b": "x", "c": None}}]


def test_doubly_encoded_text_is_flagged_and_repaired_on_request(tmp_path: Path) -> None:
    field = typed("a", TEXT)
    lines = ('{"a":"cafÃ©"}', '{"a":"café"}', '{"a":"Ã"}')
    result = from_json(tmp_path, (field,), *lines)
    assert result.reasons == [(1, "mojibake_suspected")]
    assert len(result.good) == 3
    repaired = from_json(tmp_path, (field,), *lines, policies={"mojibake_suspected": "repair"})
    assert [row["a"] for row in repaired.good] == ["café", "café", "Ã"]


# ── cells ────────────────────────────────────────────────────────────────────────────────────────────────
def test_cells_by_the_grammar(tmp_path: Path) -> None:
    fields = (typed("n", INTEGER), typed("x", NUMBER), typed("f", BOOLEAN), typed("d", FieldType(Kind.DATE)))
    result = from_csv(
        tmp_path, fields, "n,x,f,d\n5.0,1.5,yes,2024-01-31\nx,nan,2,soon\n ,,,\n7,1e3,FALSE,2024-02-29\n"
    )
    assert result.good == [
        {"n": 5, "x": 1.5, "f": True, "d": "2024-01-31"},
        {"n": 7, "x": 1000.0, "f": False, "d": "2024-02-29"},
    ]
    assert [hit[:2] for hit in result.hits if hit[0] == 2] == [(2, "integer_from_decimal")]
    assert {hit[1] for hit in result.hits if hit[0] == 3} == {"value_type", "value_not_finite"}
    assert [hit[1] for hit in result.hits if hit[0] == 4] == ["value_missing"] * 4


def test_decimal_commas_where_they_are_proven(tmp_path: Path) -> None:
    fields = (typed("x", NUMBER), typed("t", TEXT))
    text = "x;t\n1,25;Brot, hell\n12,25;b\n1.234;thousands?\n"
    result = from_csv(tmp_path, fields, text, decimal="auto")
    assert [row["x"] for row in result.good] == [1.25, 12.25]
    assert result.reasons == [(4, "value_type")]


def test_an_unread_row_gets_no_second_finding(tmp_path: Path) -> None:
    result = from_csv(tmp_path, (typed("a", TEXT), typed("n", INTEGER)), 'a,n\nx,1,2\ny,"open\nz,3\n')
    assert result.reasons == [(2, "row_ragged"), (3, "quote_unclosed")]
    assert len(result.hits) == 2


def test_json_in_a_cell_is_read_by_the_json_decoder(tmp_path: Path) -> None:
    text = (
        'id,messages\n1,"[{""role"": ""user"", ""content"": ""Say \\""hi\\"".\\nTwice.""}]"\n'
        "2,\"[{'role': 'user', 'content': 'x'}]\"\n"
        '3,"[{""role"": ""user"", ""content"": ""cut"\n4,just text\n5,\n6,"[{""role"":""a"",""role"":""b""}]"\n'
    )
    result = from_csv(tmp_path, (typed("id", TEXT), MESSAGES), text)
    assert [row["id"] for row in result.good] == ["1"]
    assert result.good[0]["@messages"][0]["content"] == 'Say "hi".\nTwice.'
    assert result.reasons == [
        (3, "cell_json_invalid"),
        (4, "cell_json_invalid"),
        (5, "cell_json_invalid"),
        (6, "conversation_empty"),
        (7, "json_duplicate_key"),
    ]


def test_a_path_looks_into_the_json_of_a_cell(tmp_path: Path) -> None:
    field = Field("w", "$.meta.page.width", NUMBER)
    result = from_csv(tmp_path, (field,), 'meta,b\n"{""page"": {""width"": 9}}",1\n"{""page"": {}}",1\n')
    assert result.good == [{"w": 9.0}]
    assert result.hits[0][1:4] == ("value_missing", "$.page.width", "missing")


def test_prompt_and_completion_may_be_texts_or_turns(tmp_path: Path) -> None:
    field = Field("@prompt", "prompt", FieldType(Kind.MESSAGES), message_keys=MESSAGE_KEYS, text_turn=True)
    lines = (
        '{"prompt":"hello"}',
        '{"prompt":[{"role":"user","content":"a"}]}',
        '{"prompt":{"from":"gpt","value":"b"}}',
        '{"prompt":5}',
    )
    result = from_json(tmp_path, (field,), *lines)
    found = [
        [(turn["role"], turn["content"], turn["content_kind"]) for turn in row["@prompt"]]
        for row in result.good
    ]
    assert found == [[(None, "hello", "text")], [("user", "a", "text")], [("gpt", "b", "text")]]
    assert result.reasons == [(4, "value_type")]
    cells = from_csv(
        tmp_path,
        (field,),
        'prompt,b\nhello [x],1\n"[{""role"":""user"",""content"":""a""}]",1\n"[{""role"": cut",1\n[laughs],1\n',
    )
    found = [[(turn["role"], turn["content"]) for turn in row["@prompt"]] for row in cells.good]
    assert found == [[(None, "hello [x]")], [("user", "a")], [(None, "[laughs]")]]
    assert cells.reasons == [(4, "cell_json_invalid")]


# ── nested ───────────────────────────────────────────────────────────────────────────────────────────────
def test_optional_members_are_filled_with_null(tmp_path: Path) -> None:
    item = FieldType(
        Kind.STRUCT, fields=(("url", TEXT), ("width", INTEGER), ("alt", FieldType(Kind.TEXT, optional=True)))
    )
    field = typed("images", FieldType(Kind.LIST, item=item))
    lines = (
        '{"images":[{"url":"u","width":3}]}',
        '{"images":[{"url":"v","width":4,"alt":"a cat"}]}',
        '{"images":[{"url":"u"}]}',
    )
    result = from_json(tmp_path, (field,), *lines)
    assert [row["images"][0]["alt"] for row in result.good] == [None, "a cat"]
    assert result.hits[0][1:3] == ("value_missing", "$.images[0].width")


def test_dates_inside_of_lists_are_brought_to_one_form(tmp_path: Path) -> None:
    field = typed("d", FieldType(Kind.LIST, item=FieldType(Kind.DATE)))
    result = from_json(tmp_path, (field,), '{"d":["2024-01-31 00:00:00"]}', '{"d":["soon"]}')
    assert result.good == [{"d": ["2024-01-31"]}]
    assert result.reasons == [(2, "value_type")]


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.DATETIME])
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_where_a_date_must_be_is_found_in_every_source(
    tmp_path: Path, kind: Kind, blank: str
) -> None:
    date = FieldType(kind)
    fields = (typed("d", date), typed("o", date, required=False), typed("t", TEXT, required=False))
    line = f'{{"d":"{blank}","o":"{blank}","t":"x"}}'
    assert from_json(tmp_path, fields, line).reasons == [(1, "value_missing")]
    assert from_csv(tmp_path, fields, f"d,o,t\n{blank},{blank},x\n").reasons == [(2, "value_missing")]
    _, found = from_frame(fields, pl.DataFrame({"d": [blank], "o": [blank], "t": ["x"]}))
    assert found == [(0, "value_missing", "d")]
    inner = (typed("d", FieldType(Kind.LIST, item=date)),)
    assert from_json(tmp_path, inner, f'{{"d":["{blank}"]}}').reasons == [(1, "value_type")]


def test_a_path_through_a_list_needs_a_list_field() -> None:
    with pytest.raises(SchemaError):
        Cast(schema(), (Field("a", "$.lines[].text", TEXT),))


# ── Parquet and Arrow ────────────────────────────────────────────────────────────────────────────────────
def test_arrow_columns_by_their_type() -> None:
    fields = (
        typed("t", TEXT),
        typed("n", INTEGER),
        typed("x", NUMBER),
        typed("f", BOOLEAN),
        typed("d", FieldType(Kind.DATE)),
    )
    frame = pl.DataFrame(
        {
            "t": pl.Series(["a", "b"], dtype=pl.Categorical),
            "n": pl.Series([1, 2], dtype=pl.UInt8),
            "x": pl.Series([1, 2], dtype=pl.Int32),
            "f": [True, False],
            "d": [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1)],
        }
    )
    values, found = from_frame(fields, frame)
    assert not found
    assert values.row(0) == ("a", 1, 1.0, True, "2024-01-31")


def test_bytes_have_no_form_and_leave_no_word_of_the_library_on_the_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    fields = (typed("d", FieldType(Kind.LIST, item=TEXT)), typed("j", FieldType(Kind.JSON)))
    frame = pl.DataFrame({"d": [[b"x"], None], "j": [{"k": b"y"}, None]})
    values, found = from_frame(fields, frame)
    assert values.null_count().row(0) == (2, 2)
    assert sorted(found)[:2] == [(0, "value_type", "d"), (0, "value_type", "j")]
    assert capfd.readouterr().err == ""


def test_arrow_values_that_do_not_fit() -> None:
    fields = (typed("t", TEXT), typed("n", INTEGER), typed("x", NUMBER), typed("m", FieldType(Kind.DATETIME)))
    frame = pl.DataFrame(
        {
            "t": [1, 2, None],
            "n": [1.0, 2.5, float("nan")],
            "x": [1.0, float("nan"), float("inf")],
            "m": [datetime.datetime(2024, 1, 31, 9, 30), None, None],
        }
    )
    values, found = from_frame(fields, frame)
    assert values["n"].to_list() == [1, None, None]
    assert values["x"].to_list() == [1.0, None, None]
    assert values["m"].to_list() == ["2024-01-31T09:30:00", None, None]
    assert [reason for record, reason, column in found if column == "n"] == [
        "integer_from_decimal",
        "value_type",
        "value_type",
    ]
    assert [hit for hit in found if hit[2] != "n"] == [
        (0, "value_type", "t"),
        (1, "value_missing", "m"),
        (1, "value_not_finite", "x"),
        (1, "value_type", "t"),
        (2, "value_missing", "m"),
        (2, "value_missing", "t"),
        (2, "value_not_finite", "x"),
    ]


def test_nested_arrow_columns() -> None:
    frame = pl.DataFrame(
        {
            "words": [["a", "b"], ["c", None]],
            "boxes": [[[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 2, 3, 4], [1, None, 3, 4]]],
            "messages": [[{"role": "user", "content": "x"}], [{"role": "user", "content": None}]],
        }
    )
    values, found = from_frame((WORDS, BOXES, MESSAGES), frame)
    assert values["@boxes"][0].to_list() == [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    assert values["@messages"].to_list()[1][0]["content_kind"] == "null"
    assert found == [(1, "bbox_not_finite", "@boxes"), (1, "word_not_text", "@words")]


def test_json_in_a_text_column_of_a_parquet_file() -> None:
    values, found = from_frame((BOXES,), pl.DataFrame({"boxes": ["[[1,2,3,4]]", "[1 2]", None]}))
    assert values["@boxes"].to_list() == [[[1.0, 2.0, 3.0, 4.0]], None, None]
    assert found == [(1, "bbox_unparsed", "@boxes"), (2, "words_boxes_mismatch", "@boxes")]


# ── the shape of it ──────────────────────────────────────────────────────────────────────────────────────
def test_findings_are_the_same_in_any_cut_of_the_batch(tmp_path: Path) -> None:
    lines = [
        '{"words":["a"],"boxes":[[1]]}',
        '{"words":[1]}',
        "broken",
        '{"words":["a"],"boxes":[[null]]}',
        "[1]",
    ] * 3
    raw = pa.array([line.encode() + b"\n" for line in lines], pa.binary())
    ids = np.arange(len(lines), dtype=np.int64)
    stage = Cast(schema(), (WORDS, BOXES))
    whole = Batch("x", None, ids, ids + 1, pl.DataFrame(), raw=raw)
    frame, findings = stage(whole)
    parts = [stage(whole.take(ids % 4 == k)) for k in range(4)]
    again = (
        pl.concat([part.frame.with_columns(id=pl.Series(part.ids)) for part, _ in parts])
        .sort("id")
        .drop("id")
    )
    assert again.equals(frame.frame)
    assert sorted(said(findings)) == sorted(hit for _, part in parts for hit in said(part))


def test_policies_come_from_the_schema() -> None:
    raw = pa.array([b'{"words":["a",5]}\n'], pa.binary())
    zero = np.zeros(1, np.int64)
    batch = Batch("x", None, zero, zero + 1, pl.DataFrame(), raw=raw)
    for policy in ("quarantine", "repair"):
        _, findings = Cast(schema({"word_not_text": policy}), (WORDS,))(batch)
        assert [item.policy for item in findings.items] == [Policy(policy)]
