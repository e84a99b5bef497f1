"""Files that are no workbook, are broken, or want too much: one fault each."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import xlsxwriter

from pipeline.findings import FileFault
from tests.readers.handmade import WORKSHEET, Tab, table, write
from tests.readers.sheets import HEAD, fault, read

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b"<html><table><tr><td>id</td></tr></table></html>", "an HTML page"),
        (b"id,text\na,x\n", "a text file"),
        (b"%PDF-1.7\n", "a PDF document"),
        (bytes(range(256)), "bytes of another kind"),
        (b"PK\x03\x04 but then nothing", "a broken zip archive"),
        (OLE + bytes(600) + "EncryptedPackage".encode("utf-16-le"), "under a password"),
    ],
)
@pytest.mark.parametrize("name", ["b.xlsx", "b.xls", "b.ods"])
def test_a_file_that_is_no_workbook_says_what_it_is(
    tmp_path: Path, content: bytes, message: str, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileFault, match=message) as caught:
        read(path, *HEAD)
    assert caught.value.note.reason.slug == "file_unreadable"


def test_a_workbook_is_known_by_its_content_not_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "b.xls", Tab("data", table(HEAD, ("a", "x"))))
    assert len(read(path, *HEAD).rows) == 1


ENTITIES = f'<!DOCTYPE w [<!ENTITY a "{"x" * 1000}"><!ENTITY b "{"&a;" * 1000}">]>'
BOMB = ENTITIES + WORKSHEET.format('<row r="1"><c r="A1" t="str"><v>&b;</v></c></row>')
SHEET = "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (SHEET, BOMB),
        (SHEET, WORKSHEET.format('<row r="2"/><row r="1"/>')),
        (SHEET, WORKSHEET.format('<row r="1"><c r="ZZZZ1"/></row>')),
        (
            SHEET,
            WORKSHEET.format('<row r="1"><c r="A1" t="str"><v>?</v></c></row>')
            .encode()
            .replace(b"?", b"\xff"),
        ),
        (SHEET, '<worksheet><sheetData><row r="1"><c r="A1">'),
        ("xl/workbook.xml", "<!DOCTYPE x><workbook/>"),
        ("xl/styles.xml", "<styleSheet"),
    ],
)
def test_xml_that_is_broken_or_a_bomb_is_one_fault_of_the_file(
    tmp_path: Path, part: str, content: str | bytes
) -> None:
    path = write(tmp_path / "b.xlsx", Tab("data", table(HEAD, ("a", "x"))), parts={part: content})
    assert fault(path) == "file_unreadable"


def test_a_part_that_is_gone_or_damaged_is_one_fault_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "b.xlsx", Tab("data", table(HEAD, ("a", "x" * 5000))))
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("xl/worksheets/sheet1.xml")
        kept = {name: archive.read(name) for name in archive.namelist() if name != info.filename}
    data = bytearray(path.read_bytes())
    data[info.header_offset + 80] ^= 0xFF
    path.write_bytes(data)
    assert fault(path) == "file_unreadable"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in kept.items():
            archive.writestr(name, content)
    assert fault(path) == "file_unreadable"


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"workbook_cells": 100}, "cells"), ({"workbook_memory_mb": 1}, "MB"), ({"workbook_seconds": 1}, "1 s")],
)
def test_a_workbook_beyond_a_limit_is_one_fault_of_the_file(
    tmp_path: Path, limits: dict[str, int], message: str
) -> None:
    filler = "".join(f'<c r="{c}{{n}}" t="str"><v>{c * 40}</v></c>' for c in "ABCDEFGHIJ")
    rows = table(HEAD) + "".join(
        f'<row r="{i}">{filler.replace("{n}", str(i))}</row>' for i in range(2, 150_000)
    )
    # single quotes: only the slower XML parser reads these
    path = write(
        tmp_path / "b.xlsx", Tab("data", rows.replace('"', "'") if "workbook_seconds" in limits else rows)
    )
    with pytest.raises(FileFault, match=message) as caught:
        read(path, *HEAD, limits=limits)
    assert caught.value.note.reason.slug == "file_limit"


def test_batches_are_of_ten_thousand_rows_however_the_file_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "b.xlsx"
    with xlsxwriter.Workbook(path, {"constant_memory": True}) as book:
        sheet = book.add_worksheet("data")
        sheet.write_row(0, 0, ["id", "text"])
        for i in range(25_000):
            sheet.write_row(i + 1, 0, [f"r{i}", "x" * (i % 50)])
    book_ = read(path, *HEAD)
    assert [(n, r["id"]) for n, r in book_.rows] == [(i + 2, f"r{i}") for i in range(25_000)]
