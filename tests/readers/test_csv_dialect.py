"""What cannot be proven about a delimited file is one error for the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.fields import Field
from pipeline.findings import FileFault
from pipeline.reasons import Reason
from tests.readers.tables import TEXT, Result, read_bytes, schema, text_fields

COLUMNS = text_fields("id", "text")


def read(tmp_path: Path, data: bytes, fields: Any = COLUMNS, **reading: Any) -> Result:
    return read_bytes(tmp_path, data, "x.csv", fields, schema(**reading))


def fault(tmp_path: Path, data: bytes, **reading: Any) -> tuple[Reason, str, str]:
    with pytest.raises(FileFault) as caught:
        read(tmp_path, data, **reading)
    note = caught.value.note
    return note.reason, note.found, note.expected


def test_bytes_of_no_declared_encoding_name_the_first_bad_byte(tmp_path: Path) -> None:
    data = b"id,text\na1,plain\na2,it\x92s\n"
    assert fault(tmp_path, data) == (Reason.FILE_ENCODING, "byte 0x92 at offset 22, line 3", "UTF-8")


def test_a_declared_encoding_is_tried_after_utf8(tmp_path: Path) -> None:
    data = b"id,text\na2,it\x92s\n"
    assert read(tmp_path, data, encodings=("cp1252",)).cells[0]["text"] == "it’s"
    assert read(tmp_path, "id,text\na2,it’s\n".encode(), encodings=("cp1252",)).cells[0]["text"] == "it’s"


def test_the_first_declared_encoding_that_decodes_the_whole_file_is_taken(tmp_path: Path) -> None:
    data = b"id,text\na2,\x81\xe9\n"  # 0x81 is nothing in Windows-1252
    assert read(tmp_path, data, encodings=("cp1252", "latin-1")).cells[0]["text"] == "\x81é"


def test_a_mark_is_believed_and_checked(tmp_path: Path) -> None:
    reason, found, _ = fault(tmp_path, b"\xef\xbb\xbfid,text\na1,\xff\n", encodings=("latin-1",))
    assert (reason, found) == (Reason.FILE_ENCODING, "byte 0xff at offset 14, line 2")


def test_a_character_cut_at_the_end_is_found(tmp_path: Path) -> None:
    assert fault(tmp_path, b"id,text\na1,\xc3")[1] == "byte 0xc3 at offset 11, line 2"


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    reason, found, expected = fault(tmp_path, b"id,body\na1,x\n")
    assert reason is Reason.HEADER_MISSING
    assert "'body'" in found and expected == "'text'"


def test_a_column_that_stands_twice_is_refused_only_when_it_is_read(tmp_path: Path) -> None:
    assert fault(tmp_path, b"id,text,text\na1,x,y\n")[0] is Reason.HEADER_DUPLICATE
    result = read(tmp_path, b"id,text,n,n,\na1,x,1,2,3\n")
    assert result.cells == [{"id": "a1", "text": "x", "n": "1", "n (4)": "2", "(5)": "3"}]


def test_an_optional_column_may_be_missing(tmp_path: Path) -> None:
    fields = (*COLUMNS, Field("note", "note", TEXT, required=False))
    result = read_bytes(tmp_path, b"id,text\na1,x\n", "x.csv", fields, schema(), cast=True)
    assert result.frame == [{"id": "a1", "text": "x", "note": None}]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"  \r\n"])
def test_an_empty_file_is_noted_and_read_as_nothing(tmp_path: Path, data: bytes) -> None:
    result = read(tmp_path, data)
    assert [note.reason for note in result.notes] == [Reason.FILE_EMPTY]
    assert result.rows == []


def test_a_header_alone_is_no_record(tmp_path: Path) -> None:
    assert read(tmp_path, b"id,text\n").rows == []


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    data = b"id,text\n" + b"a,b\n" * 300_000
    assert fault(tmp_path, data, limits={"file_mb": 1}) == (Reason.FILE_LIMIT, "2 MB", "1 MB")
