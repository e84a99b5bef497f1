"""Real workbooks cell by cell: .xlsx against openpyxl, the other formats against the same sheet saved as .xlsx."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from openpyxl.worksheet.formula import ArrayFormula, DataTableFormula

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx import archive, other_formats
from pipeline.readers.xlsx import sheet as xlsx
from pipeline.readers.xlsx.archive import WorkbookArchive

pytestmark = pytest.mark.shared

HANGS = {"issue_174.xlsx", "geometry.xlsx"}
"""openpyxl does not come to an end on these: cells at the far end of the sheet."""
Cells = dict[tuple[int, int], str]


def ours(book: Any, sheet: Any) -> Cells:
    """Texts by (row, column), both from 1, without blank ones."""
    found: Cells = {}
    for cells in book.read_cells(sheet, 10**8):
        texts = cells.take(np.arange(len(cells.row_of))).to_pylist()
        rows = cells.rows[cells.row_of].tolist()
        for row, column, text in zip(rows, cells.columns.tolist(), texts, strict=True):
            if text:
                found[row, column + 1] = text
    return found


def open_(path: Path) -> Any:
    kind = archive.workbook_format(path)
    return xlsx.Workbook(WorkbookArchive(path)) if kind == "xlsx" else other_formats.Workbook(path, kind)


def same(text: str | None, value: Any) -> bool:
    """Whether our text says what openpyxl's value is."""
    match value:
        case None | "":
            return text is None
        case ArrayFormula() | DataTableFormula():
            return True
        case bool():
            return text == str(value).upper()
        case int() | float():
            return text is not None and _number(text) == value
        case str():
            return text is not None and ("_x" in value or text == value.replace("\r\n", "\n"))
        case datetime.datetime() | datetime.date() | datetime.time() | datetime.timedelta():
            return text is not None and _moment(text, value)
        case _:
            return False


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _moment(text: str, value: Any) -> bool:
    second = datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.timedelta):
        hours, minutes, seconds = text.split(":")
        return (
            abs(datetime.timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds)) - value)
            <= second
        )
    if isinstance(value, datetime.time):
        day = datetime.date(2000, 1, 1)
        shown = datetime.datetime.combine(day, datetime.time.fromisoformat(text))
        return abs(shown - datetime.datetime.combine(day, value)) <= second
    if text.startswith("1900-02-29"):  # openpyxl has no such day, either
        return True
    if not isinstance(value, datetime.datetime):
        return bool(text == value.isoformat())
    return abs(datetime.datetime.fromisoformat(text) - value) <= second


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # openpyxl leaves what it refuses open
def test_every_cell_is_the_one_that_openpyxl_reads(shared: Path) -> None:
    """But for workbooks that one of the two refuses."""
    compared = 0
    differ = []
    for path in sorted((shared / "data").rglob("*.xls[xm]")):
        if path.name in HANGS:
            continue
        try:
            book = open_(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = openpyxl.load_workbook(path, data_only=True)
        except Exception:  # noqa: S112 - refusals are counted elsewhere
            continue
        for sheet in book.sheets:
            if sheet.kind != "worksheet" or sheet.name not in theirs.sheetnames:
                continue
            cells = ours(book, sheet)
            values = {(c.row, c.column): c.value for row in theirs[sheet.name].iter_rows() for c in row}
            for place in {*cells, *(p for p, v in values.items() if v is not None)}:
                compared += 1
                if not same(cells.get(place), values.get(place)):
                    differ.append((path.name, sheet.name, *place))
    assert compared > 40_000
    assert {name for name, *_ in differ} <= DIFFER, differ[:20]


DIFFER = {
    "inlineStr.xlsx",  # cells with an inline text and another value
    "inlineStr2.xlsx",
    "inlineStr_with_value.xlsx",
}


@pytest.mark.parametrize("format_", ["xls", "xlsb", "ods"])
@pytest.mark.parametrize("name", ["date", "issues", "any_sheets"])
def test_other_formats_give_what_xlsx_gives(shared: Path, name: str, format_: str) -> None:
    folder = shared / "data" / "calamine"
    book, oracle = open_(folder / f"{name}.{format_}"), open_(folder / f"{name}.xlsx")
    by_name = {sheet.name: sheet for sheet in oracle.sheets}
    compared = 0
    for sheet in book.sheets:
        other = by_name.get(sheet.name)
        if other is None or "worksheet" not in (sheet.kind, other.kind) or other.kind != "worksheet":
            continue
        cells, expected = ours(book, sheet), ours(oracle, other)
        for place in {*cells, *expected}:
            a, b = cells.get(place), expected.get(place)
            if a != b and (format_, name) not in KNOWN:
                assert (_number(a or ""), a is None) == (_number(b or "x"), b is None), (
                    sheet.name,
                    place,
                    a,
                    b,
                )
            compared += 1
    assert compared


KNOWN = {
    ("xls", "date"),  # a duration: the format does not tell it from a date
    ("xlsb", "date"),
    ("ods", "date"),  # the sheet has other cells
    ("xls", "issues"),
    ("xlsb", "issues"),
    ("ods", "issues"),
}


def test_a_refused_workbook_is_one_fault(shared: Path) -> None:
    folder = shared / "data" / "calamine"
    for name in (
        "OOM_alloc3.xls",
        "issue_385.xls",
        "issue_594_dos.ods",
        "pass_protected.ods",
        "too_small.xls",
    ):
        with pytest.raises(TaskFault) as caught:
            open_(folder / name)
        assert caught.value.reason == "file_unreadable"
