"""Delimited text: every good row whole and in place, every bad row by itself."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.readers.tables import Result, read_bytes, schema, text_fields

COLUMNS = text_fields("id", "text", "label")


def read(
    tmp_path: Path, data: bytes | str, name: str = "x.csv", fields: Any = COLUMNS, **reading: Any
) -> Result:
    raw = data.encode() if isinstance(data, str) else data
    return read_bytes(tmp_path, raw, name, fields, schema(**reading))


def ids(result: Result) -> list[str | None]:
    return [row["id"] for row in result.cells]


def test_quoted_line_breaks_delimiters_and_quotes_are_text_and_rows_keep_their_physical_line(
    tmp_path: Path,
) -> None:
    result = read(tmp_path, 'id,text,label\na1,"line one\nline two, ""q""",pos\na2,b,neg\n')
    assert result.cells == [
        {"id": "a1", "text": 'line one\nline two, "q"', "label": "pos"},
        {"id": "a2", "text": "b", "label": "neg"},
    ]
    assert result.rows == [2, 4]
    assert result.reasons == []


def test_a_ragged_row_costs_itself_with_its_line_and_field_counts(tmp_path: Path) -> None:
    result = read(tmp_path, "id,text,label\na1,good,pos\na2,type Q,7,neg\na3,short\na4,fine,neg\n")
    assert result.hits == [(3, "row_ragged", "", "4", "3"), (4, "row_ragged", "", "2", "3")]
    assert ids(result) == ["a1", None, None, "a4"]
    assert result.raw == [None, b"a2,type Q,7,neg", b"a3,short", None]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_unclosed_quote_costs_its_own_line_only(tmp_path: Path, end: str) -> None:
    lines = [
        "id,text,label",
        "a1,one,pos",
        'a2,"never closed,pos',
        "a3,three,neg",
        'a4,"four, quoted",pos',
        "a5,x,pos",
    ]
    result = read(tmp_path, end.join(lines) + end)
    assert result.reasons == [(3, "quote_unclosed")]
    assert ids(result) == ["a1", None, "a3", "a4", "a5"]
    assert result.cells[3]["text"] == "four, quoted"
    assert result.rows == [2, 3, 4, 5, 6]
    assert result.raw[1] == b'a2,"never closed,pos'


def test_an_unclosed_quote_at_the_end_does_not_take_the_rest_of_the_file(tmp_path: Path) -> None:
    result = read(tmp_path, 'id,text,label\na1,"open,pos\na2,two,neg\na3,three,neg\n')
    assert result.reasons == [(2, "quote_unclosed")]
    assert ids(result) == [None, "a2", "a3"]


def test_text_after_a_closing_quote_is_found(tmp_path: Path) -> None:
    result = read(tmp_path, 'id,text,label\na1,"x"y,pos\na2,ok,neg\n')
    assert result.hits == [(2, "quote_stray", "", "y,pos", "")]
    assert ids(result) == [None, "a2"]


def test_text_after_a_quote_that_closes_lines_below_costs_the_whole_record(tmp_path: Path) -> None:
    result = read(tmp_path, 'id,text,label\na1,"two\nlines"x,pos\na2,ok,neg\n')
    assert result.reasons == [(2, "quote_stray")]
    assert ids(result) == [None, "a2"]
    assert result.raw[0] == b'a1,"two\nlines"x,pos'


def test_a_quote_inside_an_unquoted_field_is_text(tmp_path: Path) -> None:
    result = read(tmp_path, 'id,text,label\na1,5" pipe,pos\na2,7" and 8",neg\n')
    assert [row["text"] for row in result.cells] == ['5" pipe', '7" and 8"']
    assert result.reasons == []


def test_blank_lines_and_rows_of_blanks_are_dropped_and_counted(tmp_path: Path) -> None:
    result = read(tmp_path, "id,text,label\n\na1,x,pos\n   \n,,\na2,y,neg\n\n")
    assert ids(result) == ["a1", "a2"]
    assert result.rows == [3, 6]
    assert result.dropped["blank"] == 4


def test_a_partly_blank_row_is_a_record(tmp_path: Path) -> None:
    result = read(tmp_path, 'id,text,label\na1,,pos\na2,"",neg\n')
    assert [row["text"] for row in result.cells] == [None, None]
    assert not result.dropped["blank"]


def test_words_that_other_readers_take_for_missing_stay_text(tmp_path: Path) -> None:
    words = ["NA", "None", "null", "N/A", "nan", "NULL", "-"]
    result = read(tmp_path, "id,text,label\n" + "".join(f"{i},{w},pos\n" for i, w in enumerate(words)))
    assert [row["text"] for row in result.cells] == words


def test_nul_bytes_stay_in_their_cell(tmp_path: Path) -> None:
    result = read(tmp_path, b"id,text,label\na1,bad\x00byte,pos\na2,ok,neg\n")
    assert [row["text"] for row in result.cells] == ["bad\x00byte", "ok"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_read(tmp_path: Path, end: str) -> None:
    result = read(tmp_path, end.join(["id,text,label", "a1,x,pos", "a2,y,neg", ""]))
    assert result.cells == [
        {"id": "a1", "text": "x", "label": "pos"},
        {"id": "a2", "text": "y", "label": "neg"},
    ]
    assert result.rows == [2, 3]


def test_mixed_line_ends_in_one_file(tmp_path: Path) -> None:
    result = read(tmp_path, 'id,text,label\r\na1,x,pos\na2,"in\r\nside",neg\r\na3,z,pos\ra4,w,neg')
    assert ids(result) == ["a1", "a2", "a3", "a4"]
    assert result.cells[1]["text"] == "in\r\nside"
    assert result.rows == [2, 3, 5, 6]


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be-mark", "utf-32"])
def test_a_byte_order_mark_declares_the_encoding(tmp_path: Path, codec: str) -> None:
    body = 'id\ttext\tlabel\r\na1\t"Zähler,\nneu"\tneg\r\na2\t😀\tpos\r\n'
    data = b"\xfe\xff" + body.encode("utf-16-be") if codec == "utf-16-be-mark" else body.encode(codec)
    result = read(tmp_path, data)
    assert [row["text"] for row in result.cells] == ["Zähler,\nneu", "😀"]
    assert result.rows == [2, 4]


def test_a_field_larger_than_a_block_is_one_field(tmp_path: Path) -> None:
    giant = "x," * 4_000_000
    result = read(tmp_path, f'id,text,label\na1,"{giant}",pos\na2,ok,neg\n')
    assert result.cells[0]["text"] == giant
    assert ids(result) == ["a1", "a2"]


def test_a_record_over_the_limit_costs_itself(tmp_path: Path) -> None:
    result = read(
        tmp_path,
        "id,text,label\na0,x,pos\na1," + "x" * 9_000_000 + ",pos\na2,ok,neg\n",
        limits={"record_mb": 1},
    )
    assert result.reasons == [(3, "line_too_long")]
    assert ids(result) == ["a0", None, "a2"]
    assert result.rows == [2, 3, 4]


def test_an_unclosed_quote_over_the_limit_is_no_reason_to_read_on(tmp_path: Path) -> None:
    rows = "".join(f"r{i},{'t' * 80},pos\n" for i in range(60_000))
    result = read(tmp_path, 'id,text,label\na1,"open,pos\n' + rows, limits={"record_mb": 1})
    assert result.reasons == [(2, "quote_unclosed")]
    assert len(result.rows) == 60_001
    assert result.rows[-1] == 60_002


@pytest.mark.parametrize(
    "body", ["1,2,3\n4,5,", "1,2,3\n4,5,6,", '1,2,3\n4,5,"6",', "1,2,3\n4,5\n", "1,2,3\n4,5,6,7\n"]
)
def test_a_row_of_another_length_at_the_end_is_found(tmp_path: Path, body: str) -> None:
    result = read(tmp_path, "id,text,label\n" + body)
    assert result.reasons == ([(3, "row_ragged")] if body != "1,2,3\n4,5," else [])


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────
CELL = st.text(st.sampled_from('ab ,;"\n\r\té😀'), max_size=6)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_what_the_csv_module_writes_is_read_as_it_stands(
    tmp_path: Path, rows: list[tuple[str, str, str]], end: str
) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text", "label"), *rows])
    result = read(tmp_path, file.getvalue().encode())
    expected = [tuple(cell or None for cell in row) for row in rows]
    assert [tuple(r.values()) for r in result.cells] == [row for row in expected if any(row)]
    assert len(result.cells) + result.dropped["blank"] == len(rows)
    assert result.reasons == []


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from('ab,"\n\r'), max_size=40))
def test_no_line_is_lost_and_good_records_are_those_of_the_csv_module(tmp_path: Path, body: str) -> None:
    result = read(tmp_path, "id,text,label\n" + body)
    bad = {row for row, _ in result.reasons}
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    # Every line with something on it is part of some record, and every record starts at a line of its own.
    assert result.rows == sorted(set(result.rows))
    filled = [i for i, line in enumerate(lines, 2) if line.strip()]
    assert not filled or (result.rows or result.dropped["blank"])
    for row, cells in zip(result.rows, result.cells, strict=True):
        if row not in bad:
            text = "\n".join(lines[row - 2 :])
            first = next(csv.reader(io.StringIO(text, newline=""), strict=False))
            found = [cell or "" for cell in cells.values()]
            assert [c.replace("\r\n", "\n").replace("\r", "\n") for c in found] == first


# ── dialect ──────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_whose_header_holds_the_columns(tmp_path: Path, delimiter: str) -> None:
    result = read(tmp_path, f"id{delimiter}text{delimiter}label\na1{delimiter}x y{delimiter}pos\n")
    assert result.cells == [{"id": "a1", "text": "x y", "label": "pos"}]


def test_decimal_commas_stay_in_their_cell_under_a_semicolon(tmp_path: Path) -> None:
    result = read(tmp_path, "id;text;label\na1;Brot, hell;1,25\n", decimal="auto")
    assert result.cells == [{"id": "a1", "text": "Brot, hell", "label": "1,25"}]
    assert result.batches[0].decimal == ".,"


def test_a_first_line_that_declares_the_delimiter_is_no_header(tmp_path: Path) -> None:
    result = read(tmp_path, "sep=;\r\nid;text;label\r\na1;x;pos\r\n")
    assert ids(result) == ["a1"]
    assert result.rows == [3]


def test_a_declared_delimiter_is_used(tmp_path: Path) -> None:
    result = read(tmp_path, "id~text~label\na1~a,b;c~pos\n", delimiter="~")
    assert result.cells == [{"id": "a1", "text": "a,b;c", "label": "pos"}]


def test_a_header_is_found_below_a_title(tmp_path: Path) -> None:
    result = read(tmp_path, "Export of May\n\nid,text,label\na1,x,pos\n", header="find")
    assert ids(result) == ["a1"]
    assert result.rows == [4]


def test_a_header_row_by_its_number(tmp_path: Path) -> None:
    result = read(tmp_path, "id,text,label\nid,text,label\na1,x,pos\n", header=2)
    assert ids(result) == ["a1"]


def test_no_header_names_columns_by_their_place(tmp_path: Path) -> None:
    result = read(tmp_path, "a1,x,pos\na2,y,neg\n", fields=text_fields("1", "2", "3"), header="none")
    assert [row["1"] for row in result.cells] == ["a1", "a2"]
    assert result.rows == [1, 2]
