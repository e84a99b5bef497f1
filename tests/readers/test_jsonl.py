"""JSON Lines: one line costs itself only, and keeps its number and its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.findings import FileFault
from pipeline.reasons import Reason
from tests.readers.tables import read_bytes, schema, text_fields

COLUMNS = text_fields("id", "text")


def test_blank_lines_are_counted_and_lines_keep_their_number(tmp_path: Path) -> None:
    data = b'{"id":"a1","text":"x"}\n\n{"id":"a2","text":"y"}\r\n  \t\n{"id":"ax","text":"cut o\n{"id":"a3","text":"z"}'
    result = read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema(), cast=True)
    assert result.rows == [1, 3, 5, 6]
    assert result.dropped["blank"] == 2
    assert [row["id"] for row in result.good] == ["a1", "a2", "a3"]
    assert result.hits == [(5, "json_invalid", "", "Unterminated string starting at column 19", "")]
    assert result.raw[2] == b'{"id":"ax","text":"cut o\n'


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    result = read_bytes(
        tmp_path, b'\xef\xbb\xbf{"id":"a","text":"b"}\n', "x.jsonl", COLUMNS, schema(), cast=True
    )
    assert result.good == [{"id": "a", "text": "b"}]


def test_utf16_by_its_mark(tmp_path: Path) -> None:
    data = '{"id":"a","text":"ä"}\n{"id":"b","text":"😀"}\n'.encode("utf-16")
    result = read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema(), cast=True)
    assert [row["text"] for row in result.good] == ["ä", "😀"]
    assert result.rows == [1, 2]


def test_a_line_that_is_not_utf8_costs_itself(tmp_path: Path) -> None:
    data = b'{"id":"a1","text":"\xff"}\n{"id":"a2","text":"ok"}\n{"id":"a3","text":"ok","other":"\xfe"}\n'
    result = read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema(), cast=True)
    assert [row["id"] for row in result.good] == ["a2"]
    assert result.hits == [
        (1, "json_invalid", "", "byte 0xff at column 20 is not UTF-8", ""),
        (3, "json_invalid", "", "byte 0xfe at column 33 is not UTF-8", ""),
    ]


def test_declared_encodings_hold_for_the_whole_file(tmp_path: Path) -> None:
    data = b'{"id":"a1","text":"caf\xe9"}\n'
    result = read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema(encodings=("latin-1",)), cast=True)
    assert result.good == [{"id": "a1", "text": "café"}]
    with pytest.raises(FileFault) as caught:
        read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema(encodings=("ascii",)), cast=True)
    assert caught.value.note.reason is Reason.FILE_ENCODING


def test_a_line_over_the_limit_costs_itself(tmp_path: Path) -> None:
    long = b'{"id":"a2","text":"' + b"x" * 9_000_000 + b'"}\n'
    data = b'{"id":"a1","text":"x"}\n' + long + b'{"id":"a3","text":"z"}\n'
    result = read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema(limits={"record_mb": 1}), cast=True)
    assert [row["id"] for row in result.good] == ["a1", "a3"]
    assert result.reasons == [(2, "line_too_long")]
    assert result.hits[0][3] == str(len(long))
    assert result.rows == [1, 2, 3]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(['{"id":"a","text":"b"}', "", " ", "[1]", '{"id":', "{}", "7"]), max_size=9),
    st.booleans(),
)
def test_records_and_blank_lines_add_up(tmp_path: Path, lines: list[str], closed: bool) -> None:
    data = "\n".join(lines).encode() + (b"\n" if closed else b"")
    result = read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema(), cast=True)
    filled = [i for i, line in enumerate(lines, 1) if line.strip()]
    assert result.rows == filled
    assert [row["id"] for row in result.good] == ["a"] * sum(line.startswith('{"id":"a"') for line in lines)
    bad = {i for i, line in enumerate(lines, 1) if line.strip() and not line.startswith('{"id":"a"')}
    assert {row for row, _ in result.reasons} == bad
