"""Declared line formats: split at the first separators, quotes mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.findings import FileFault
from pipeline.reasons import Reason
from tests.readers.tables import read_bytes, schema, text_fields

RECEIPT = {"separator": ",", "fields": ("x", "y", "text"), "rest": True}
TOKENS = {"separator": "\t", "fields": ("token", "x", "label")}


def test_the_last_field_takes_the_rest_of_the_line(tmp_path: Path) -> None:
    data = b'1,2,NO. 7, JALAN "MAWAR, 50450\n\n3,4,1,204.50\r\n5,6,\n'
    result = read_bytes(tmp_path, data, "x.csv", text_fields("x", "text"), schema(line_format=RECEIPT))
    assert [row["text"] for row in result.cells] == ['NO. 7, JALAN "MAWAR, 50450', "1,204.50", None]
    assert result.rows == [1, 3, 4]
    assert result.dropped["blank"] == 1


def test_a_line_with_too_few_fields_costs_itself(tmp_path: Path) -> None:
    result = read_bytes(
        tmp_path, b"1,2,a\n3\n4,5,b\n", "x.txt", text_fields("x"), schema(line_format=RECEIPT)
    )
    assert result.hits == [(2, "line_format", "", "1 fields", "at least 3 fields")]
    assert result.raw == [None, b"3", None]


def test_without_a_rest_the_count_must_match(tmp_path: Path) -> None:
    data = "Zäh\t1\tO\r\na\tb\r\nx\t2\tO\ty\r\n".encode()
    result = read_bytes(
        tmp_path, data, "x.txt", text_fields("token"), schema(format="lines", line_format=TOKENS)
    )
    assert result.hits == [
        (2, "line_format", "", "2 fields", "3 fields"),
        (3, "line_format", "", "4 fields", "3 fields"),
    ]
    assert result.cells[0] == {"token": "Zäh", "x": "1", "label": "O"}


def test_the_fields_must_hold_the_columns(tmp_path: Path) -> None:
    with pytest.raises(FileFault) as caught:
        read_bytes(tmp_path, b"1,2,a\n", "x.csv", text_fields("z"), schema(line_format=RECEIPT))
    assert caught.value.note.reason is Reason.HEADER_MISSING
