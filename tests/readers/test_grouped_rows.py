"""Grouping: rows of one key are one document, in order; a bad row costs its document, never a word of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FileFault
from pipeline.readers import encoding, grouped_rows
from pipeline.reasons import Reason
from tests.readers.tables import TEXT, Result, read_bytes, schema

FIELDS = (
    Field("doc", "doc", TEXT),
    Field("@words", "word", FieldType(Kind.WORDS), wrong=Reason.WORD_NOT_TEXT, grouped=True),
    Field("@boxes", ("x", "y"), FieldType(Kind.BOXES), wrong=Reason.BBOX_UNPARSED, grouped=True),
    Field("@labels", "label", FieldType(Kind.LABELS), wrong=Reason.LABEL_UNKNOWN, grouped=True),
    Field(
        "@page_width",
        "width",
        FieldType(Kind.NUMBER),
        missing=Reason.PAGE_SIZE_INVALID,
        wrong=Reason.PAGE_SIZE_INVALID,
    ),
)
HEADER = "doc,word,x,y,label,width\n"
RULES = {"group_by": {"key": "doc"}}


def read(tmp_path: Path, body: str, name: str = "x.csv", **reading: Any) -> Result:
    return read_bytes(tmp_path, body.encode(), name, FIELDS, schema(**(RULES | reading)), cast=True)


def words(result: Result) -> dict[str, list[str]]:
    return {row["doc"]: row["@words"] for row in result.good}


def test_rows_of_a_key_become_one_record_with_typed_lists(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER + "d1,Hotel,300.0,200,B-KEY,1000\nd1,,18.5, 25,O,1000\nd2,Bar,1,2,O,900\n")
    assert result.good[0] == {
        "doc": "d1",
        "@words": ["Hotel", ""],
        "@boxes": [[300.0, 200.0], [18.5, 25.0]],
        "@labels": ["B-KEY", "O"],
        "@page_width": 1000.0,
    }
    assert result.rows == [2, 4]


def test_rows_of_a_group_need_not_follow_each_other(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER + "a,1,1,1,O,9\nb,2,1,1,O,9\na,3,1,1,O,9\nb,4,1,1,O,9\n")
    assert words(result) == {"a": ["1", "3"], "b": ["2", "4"]}


def test_a_ragged_row_costs_the_documents_it_may_belong_to_and_is_named(tmp_path: Path) -> None:
    rows = "a,1,1,1,O,9\nb,2,1,1,O,9\nragged\nc,3,1,1,O,9\nd,4,1,1,O,9\n"
    result = read(tmp_path, HEADER + rows)
    assert sorted(words(result)) == ["a", "d"]
    assert result.hits == [(3, "row_ragged", "row 4", "1", "6"), (5, "row_ragged", "row 4", "1", "6")]
    assert result.raw.count(b"ragged") == 2


def test_a_ragged_row_inside_a_document_costs_this_one_only(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER + "a,1,1,1,O,9\nb,2,1,1,O,9\nragged\nb,3,1,1,O,9\nc,4,1,1,O,9\n")
    assert sorted(words(result)) == ["a", "c"]


def test_only_ragged_rows_are_one_record(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER + "ragged\nragged,too\n")
    assert len(result.rows) == 2
    assert {reason for _, reason in result.reasons} == {"row_ragged"}


def test_a_bad_cell_costs_its_document_and_names_the_row(tmp_path: Path) -> None:
    result = read(
        tmp_path, HEADER + "a,1,1,abc,O,9\na,2,1,1,O,9\nb,3,,1,O,9\nc,4,1,nan,O,9\nd,5,1,1,,9\ne,6,1,1,O,9\n"
    )
    assert sorted(words(result)) == ["e"]
    assert [(reason, path, found) for _, reason, path, found, _ in result.hits] == [
        ("bbox_not_finite", "row 2", "abc"),
        ("bbox_not_finite", "row 4", "blank"),
        ("bbox_not_finite", "row 5", "nan"),
        ("label_unknown", "row 6", "blank"),
    ]


def test_a_blank_key_is_a_record_by_itself(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER + "a,1,1,1,O,9\n ,2,1,1,O,9\na,3,1,1,O,9\n")
    assert words(result) == {"a": ["1", "3"]}
    assert (3, "group_key_missing", "row 3", "blank", "'doc'") in result.hits


def test_a_constant_column_that_changes_is_found(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER + "a,1,1,1,O,9\na,2,1,1,O,10\nb,3,1,1,O,9\nb,4,1,1,O,\nc,5,1,1,O,9\n")
    assert sorted(words(result)) == ["c"]
    assert [hit[:4] for hit in result.hits] == [
        (2, "group_inconsistent", "row 3", "10"),
        (4, "group_inconsistent", "row 5", "blank"),
    ]


def test_an_order_column_orders_within_the_group(tmp_path: Path) -> None:
    header = HEADER.replace("width", "width,n")
    rows = "".join(
        f"{doc},{word},1,1,O,9,{n}\n"
        for doc, word, n in (
            ("a", "third", 3),
            ("b", "one", 1),
            ("a", "first", 1),
            ("a", "second", 2),
            ("c", "x", 1),
            ("c", "y", 1),
            ("d", "x", "z"),
        )
    )
    result = read(tmp_path, header + rows, group_by={"key": "doc", "order": "n"})
    assert words(result) == {"a": ["first", "second", "third"], "b": ["one"]}
    assert result.reasons == [(6, "group_inconsistent"), (8, "value_type")]


def test_without_a_key_the_file_is_one_document(tmp_path: Path) -> None:
    result = read(tmp_path, HEADER + "a,1,1,1,O,9\na,2,1,1,O,9\n", group_by={})
    assert result.good[0]["@words"] == ["1", "2"]
    assert len(result.rows) == 1


def test_json_lines_and_frames_of_rows_are_grouped_too(tmp_path: Path) -> None:
    line = '{"doc":"%s","word":"%s","x":1.5,"y":2,"label":"O","width":9}\n'
    result = read(
        tmp_path, line % ("a", "Hé") + line % ("a", "b") + "broken\n" + line % ("b", "c"), "x.jsonl"
    )
    assert result.reasons == [(1, "json_invalid"), (4, "json_invalid")]
    assert result.cells[0]["word"] == ["Hé", "b"]
    frame = pl.DataFrame(
        {
            "doc": ["a", "a"],
            "word": ["x", "y"],
            "x": [1.5, 2.0],
            "y": [1, 2],
            "label": ["O", "O"],
            "width": [9, 9],
        }
    )
    frame.write_parquet(tmp_path / "y.parquet")
    result = read_bytes(
        tmp_path, (tmp_path / "y.parquet").read_bytes(), "x.parquet", FIELDS, schema(**RULES), cast=True
    )
    assert result.good[0]["@boxes"] == [[1.5, 1.0], [2.0, 2.0]]


def test_a_missing_key_column_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileFault) as caught:
        read(tmp_path, HEADER + "a,1,1,1,O,9\n", group_by={"key": "page"})
    assert caught.value.note.reason is Reason.HEADER_MISSING


ROW = st.sampled_from(["a", "b", "c", "", "ragged"])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, max_size=25), st.integers(20, 90), st.booleans())
def test_large_files_group_like_small_ones(tmp_path: Path, keys: list[str], size: int, sort: bool) -> None:
    keys = sorted(keys) if sort else keys
    rows = [key if key == "ragged" else f"{key},w{i},1,1,O,9" for i, key in enumerate(keys)]
    body = HEADER + "".join(row + "\n" for row in rows)
    small = read(tmp_path, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped_rows, "RANGE_BYTES", size)
        patch.setattr(grouped_rows, "FLUSH_ROWS", 2)
        patch.setattr(encoding, "CHUNK_BYTES", 16)
        patch.setattr("pipeline.readers.blocks.BATCH_ROWS", 2)
        large = read(tmp_path, body)
    by_key = sorted(zip(large.rows, large.frame, strict=True), key=lambda pair: pair[0])
    assert [row for row, _ in by_key] == small.rows
    assert [frame for _, frame in by_key] == small.frame
    assert large.hits == small.hits
    # An oracle of its own: a document is good when no unread row touches it.
    tainted = set()
    known = [key for key in keys if key != ""]
    for i, key in enumerate(known):
        if key == "ragged":
            before = [k for k in known[:i] if k != "ragged"][-1:]
            behind = [k for k in known[i:] if k != "ragged"][:1]
            tainted |= {*(before or behind), *behind}
    expected = {
        k: [f"w{i}" for i, key in enumerate(keys) if key == k]
        for k in keys
        if k not in {"", "ragged", *tainted}
    }
    assert words(small) == expected


def test_a_box_may_stand_in_one_cell_as_json(tmp_path: Path) -> None:
    fields = (
        FIELDS[0],
        FIELDS[1],
        Field("@boxes", "box", FieldType(Kind.BOXES), wrong=Reason.BBOX_UNPARSED, grouped=True),
    )
    rows = (
        'doc,word,box\na,Hotel,"[10, 20.5, 30, 40]"\na,Mond,"[50, 20, 90, 40]"\n'
        'b,zwei,"[1, 2, 3, 4], [5, 6, 7, 8]"\nc,Text,1 2 3 4\nd,leer,\ne,kurz,"[1, 2'
        '"\nf,gut,"[1, 2, 3, 4]"\nf,schlecht,"[1, ""x"", 3, 4]"\ng,ganz,"[9, 9, 9, 9]"\n'
    )
    result = read_bytes(tmp_path, rows.encode(), "x.csv", fields, schema(**RULES), cast=True)
    assert {row["doc"]: row["@boxes"] for row in result.good} == {
        "a": [[10, 20.5, 30, 40], [50, 20, 90, 40]],
        "g": [[9, 9, 9, 9]],
    }
    assert [(hit[0], hit[1], hit[2]) for hit in result.hits] == [
        (4, "bbox_unparsed", "row 4"),
        (5, "bbox_unparsed", "row 5"),
        (6, "bbox_unparsed", "row 6"),
        (7, "bbox_unparsed", "row 7"),
        (8, "bbox_not_finite", "row 9"),
    ]


def test_a_blank_label_costs_its_document_and_moves_no_label_of_the_next(tmp_path: Path) -> None:
    rows = "a,1,1,1,O,9\na,2,1,1,,9\nb,3,1,1,B-KEY,9\nb,4,1,1,I-KEY,9\nc,5,1,1,,9\n"
    result = read(tmp_path, HEADER + rows)
    assert [(row["doc"], row["@labels"]) for row in result.good] == [("b", ["B-KEY", "I-KEY"])]
    assert result.hits == [
        (2, "label_unknown", "row 3", "blank", "a label"),
        (6, "label_unknown", "row 6", "blank", "a label"),
    ]
