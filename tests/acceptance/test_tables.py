"""A look into tables finds the header wherever it stands, and is stopped by no odd file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import openpyxl
import pytest

from tests.acceptance.outcome import Record
from tests.acceptance.peek import peek, records_at


@pytest.mark.parametrize(
    "text",
    [
        "id,text\na1,x\n",
        "Export 2024\n\nid;text\na1;x\n",
        "Export; 2024; of all\nid,text\na1,x\n",
        "sep=|\nid|text\na1|x\n",
        " id , text \na1,x\n",
        "id,text\ra1,x\r",
        "id,text\r\na1,x\r\na2,x,ragged,row\r\n",
    ],
)
def test_the_header_has_the_names_the_case_gives(tmp_path: Path, text: str) -> None:
    (tmp_path / "input.csv").write_text(text, newline="")
    assert peek(tmp_path, ("input.csv",), ("id", "text")).records[0] == {"id": "a1", "text": "x"}


def test_a_field_of_any_length(tmp_path: Path) -> None:
    (tmp_path / "input.csv").write_text("id,text\na1," + "x" * 200_000 + "\n")
    assert len(peek(tmp_path, ("input.csv",)).values("text")[0]) == 200_000


def test_the_header_of_a_workbook_below_a_title(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Export", "of 2024"], [], ["id", "text"], ["a1", "x"]):
        book.active.append(row)
    book.save(tmp_path / "input.xlsx")
    assert peek(tmp_path, ("input.xlsx",), ("id", "text")).records == ({"id": "a1", "text": "x"},)


def test_a_cell_far_away_costs_nothing(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["id", "text"])
    book.active.append(["a1", "x"])
    book.active["XFD1048576"] = "far"
    book.save(tmp_path / "input.xlsx")
    assert peek(tmp_path, ("input.xlsx",)).values("id") == ["a1"]


def test_a_broken_sheet_shows_nothing(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.save(tmp_path / "whole.xlsx")
    with (
        zipfile.ZipFile(tmp_path / "whole.xlsx") as whole,
        zipfile.ZipFile(tmp_path / "input.xlsx", "w") as cut,
    ):
        for name in whole.namelist():
            cut.writestr(name, b"<worksheet" if "sheet1" in name else whole.read(name))
    assert peek(tmp_path, ("input.xlsx",)).records == ()


def test_records_among_other_values_are_found(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"data": [{"id": "a1"}, 7, null]}')
    assert records_at(tmp_path, ("input.json",)) == "$.data"
    assert peek(tmp_path, ("input.json",)).records == ({"id": "a1"},)


@pytest.mark.parametrize(
    ("cells", "name"), [('{"doc": ["d1", "d1"]}', "d1"), ('{"doc": ["d1", "d2"]}', None)]
)
def test_the_id_of_a_group_that_was_set_aside(cells: str, name: str | None) -> None:
    refusal = {"cells": cells, "raw": None, "reasons": []}
    assert Record(("input.csv", "", 2), (), refusal).identity("doc", []) == name
