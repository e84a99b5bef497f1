"""Which rows, columns and sheets of a workbook are read, and how they are numbered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.readers.xlsx.strings import FIRST_CHUNK_BYTES
from tests.readers.handmade import Tab, number, row, table, text, write
from tests.readers.sheets import HEAD, fault, one, read


def test_rows_are_numbered_as_the_sheet_numbers_them_whatever_its_stated_size(tmp_path: Path) -> None:
    rows = row(4, "", text("id"), text("text")) + row(7, "", text("a"), text("one")) + row(9, "", text("b"))
    book = read(write(tmp_path / "b.xlsx", Tab("data", rows, dimension="A1")), *HEAD)
    assert [(n, r["id"], r["text"]) for n, r in book.rows] == [(7, "a", "one"), (9, "b", None)]
    assert book.sheets[0].dropped == {"blank": 3}


def test_blank_rows_are_counted_up_to_the_last_record_and_formats_are_no_content(tmp_path: Path) -> None:
    blank = "".join(row(i, number("", "day"), '<c r="{at}" s="1"/>') for i in (3, 5, 6, 7))
    rows = [row(2, text("a"), text("x")), row(3), row(4, text("b"), text("y"))]
    assert one(tmp_path, *rows).sheets[0].dropped == {"blank": 1}
    with_formats = [rows[0], row(3, number("", "day")), rows[2], row(5, '<c r="{at}" s="1"/>'), row(60000)]
    book = one(tmp_path, *with_formats)
    assert [n for n, _ in book.rows] == [2, 4]
    assert book.sheets[0].dropped == {"blank": 1}
    assert blank


def test_a_row_with_something_beyond_the_header_only_is_blank(tmp_path: Path) -> None:
    note = row(3, "", "", "", "", text("a note beside the table"))
    assert [n for n, _ in one(tmp_path, row(2, text("a"), text("x")), note).rows] == [2]


def test_a_far_cell_costs_neither_memory_nor_the_file(tmp_path: Path) -> None:
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    book = one(tmp_path, row(2, text("a"), text("x")), far, limits={"workbook_memory_mb": 300})
    assert [n for n, _ in book.rows] == [2]


def test_rows_and_cells_without_a_place_follow_the_one_before(tmp_path: Path) -> None:
    rows = "<row><c t='str'><v>id</v></c><c t='str'><v>text</v></c></row><row/><row><c><v>7</v></c></row>"
    book = read(write(tmp_path / "b.xlsx", Tab("data", rows)), "id", optional=("text",))
    assert book.rows == [(3, {"id": "7", "text": None})]


def test_a_header_is_found_below_other_rows_where_that_is_declared(tmp_path: Path) -> None:
    rows = table(("A report", ""), ("", ""), ("", "made today"), ("id ", "text"), ("a", "x"))
    path = write(tmp_path / "b.xlsx", Tab("data", rows))
    assert fault(path) == "header_missing"
    assert read(path, *HEAD, header="find").rows == [(5, {"id": "a", "text": "x"})]
    assert read(path, *HEAD, header=4).rows == [(5, {"id": "a", "text": "x"})]
    assert fault(path, header=3) == "header_missing"
    assert fault(path, "id", "label", header="find") == "header_missing"


def test_without_a_header_columns_have_numbers(tmp_path: Path) -> None:
    rows = table(("a", "x"), ("b", "y", "z"))
    book = read(write(tmp_path / "b.xlsx", Tab("data", rows)), "1", "2", header="none")
    assert book.rows == [(1, {"1": "a", "2": "x", "3": None}), (2, {"1": "b", "2": "y", "3": "z"})]


def test_header_cells_need_not_be_text_and_edge_white_space_does_not_count(tmp_path: Path) -> None:
    head = row(1, number("2024"), text(" two\nlines \n"), number("45292", "day"), "", text("last"))
    path = write(tmp_path / "b.xlsx", Tab("data", head + row(2, text("a"), text("b"), text("c"), text("d"))))
    book = read(path, "2024", "two\nlines", "2024-01-01")
    assert book.rows == [(2, {"2024": "a", "two\nlines": "b", "2024-01-01": "c", "(4)": "d", "last": None})]


def test_a_name_may_differ_from_the_declared_one_in_white_space_where_that_is_plain(tmp_path: Path) -> None:
    names = ("page\nwidth", "cafe\u0301", "a  b", "a b ", "text")
    path = write(tmp_path / "b.xlsx", Tab("data", table(names, ("1", "2", "3", "4", "5"))))
    assert read(path, "page width", "caf\u00e9", "a b").rows == [
        (2, {"page width": "1", "caf\u00e9": "2", "a  b": "3", "a b": "4", "text": "5"})
    ]
    assert fault(path, "A b") == "header_missing"
    two = write(tmp_path / "c.xlsx", Tab("data", table(("a\nb", "a  b"), ("1", "2"))))
    assert fault(two, "a b") == "header_missing"


def test_a_name_that_stands_twice_matters_only_where_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "b.xlsx", Tab("data", table(("id", "note", "note", ""), ("a", "x", "y", "z"))))
    assert fault(path, "id", "note") == "header_duplicate"
    assert read(path, "id").rows == [(2, {"id": "a", "note": "x", "note (3)": "y"})]


def test_a_wide_sheet_is_read_to_its_last_column(tmp_path: Path) -> None:
    names = tuple(f"c{i}" for i in range(16_384))
    book = read(write(tmp_path / "b.xlsx", Tab("data", table(names, names, names))), "c0", "c16383")
    assert [n for n, _ in book.rows] == [2, 3]
    assert book.rows[1][1] == dict(zip(names, names, strict=True))


TABS = (
    Tab("lists", table(("code",), ("1",)), state="hidden"),
    Tab("chart", "", kind="chartsheet"),
    Tab("2023", table(HEAD, ("a", "x"))),
    Tab("2024", table(HEAD, ("b", "y"))),
    Tab("secret", table(HEAD, ("c", "z")), state="veryHidden"),
    Tab("blank", ""),
)


@pytest.mark.parametrize(
    ("sheets", "names"),
    [
        ("first_visible", ["2023"]),
        ("visible", ["2023", "2024"]),
        (("2024",), ["2024"]),
        (("2024", 2, "2024"), ["2024", "2023"]),
        (("secret",), ["secret"]),
        ({"pattern": "^20"}, ["2023", "2024"]),
    ],
)
def test_sheets_are_chosen_as_declared(tmp_path: Path, sheets: object, names: list[str]) -> None:
    book = read(write(tmp_path / "b.xlsx", *TABS), *HEAD, sheets=sheets)
    assert [sheet.name for sheet in book.sheets] == names


def test_sheets_that_are_not_read_are_named(tmp_path: Path) -> None:
    book = read(write(tmp_path / "b.xlsx", *TABS), *HEAD)
    notes = {note.reason.slug: note.found for note in book.notes}
    assert notes == {"sheet_hidden": "'lists', 'secret'", "sheet_unread": "'2024', 'blank'"}


def test_a_blank_sheet_is_said_and_costs_no_other(tmp_path: Path) -> None:
    book = read(write(tmp_path / "b.xlsx", *TABS), *HEAD, sheets="visible")
    assert [note.reason.slug for note in book.notes] == ["file_empty", "sheet_hidden"]


@pytest.mark.parametrize("sheets", [("2025",), (9,), {"pattern": "^19"}])
def test_a_declared_sheet_that_is_missing_is_a_fault(tmp_path: Path, sheets: object) -> None:
    assert fault(write(tmp_path / "b.xlsx", *TABS), sheets=sheets) == "sheet_missing"


def test_a_header_without_rows_gives_no_record(tmp_path: Path) -> None:
    assert one(tmp_path).rows == []


def test_rows_of_an_extension_are_no_rows_of_the_sheet(tmp_path: Path) -> None:
    after = '<extLst><ext><row r="9"><c r="A9"><v>1</v></c></row></ext></extLst>'
    rows = table(HEAD, ("a", "x"))
    book = read(write(tmp_path / "b.xlsx", Tab("data", rows, after=after)), *HEAD)
    assert book.rows == [(2, {"id": "a", "text": "x"})]


def test_a_long_part_before_the_rows_hides_none(tmp_path: Path) -> None:
    """The rows then begin in a later chunk than the first."""
    space = " " * (FIRST_CHUNK_BYTES + 1000)
    path = write(tmp_path / "b.xlsx", Tab("data", table(HEAD, ("a", "x")), dimension=f'A1"{space}x="'))
    assert read(path, *HEAD).rows == [(2, {"id": "a", "text": "x"})]


def test_reading_imports_no_pandas(tmp_path: Path) -> None:
    """It would cost more than reading a small workbook."""
    path = write(tmp_path / "b.xlsx", Tab("data", table(HEAD, ("a", "x"))))
    code = (
        "import sys; from pathlib import Path; from tests.readers.sheets import read\n"
        "before = 'pandas' in sys.modules\n"
        f"read(Path({str(path)!r}), 'id', 'text')\n"
        "print(before, 'pandas' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]


def test_a_sheet_without_the_header_costs_that_sheet_and_is_named(tmp_path: Path) -> None:
    tabs = (
        Tab("2023", table(HEAD, ("a", "x"))),
        Tab("read me", table(("about", "this"), ("file", ""))),
        Tab("twice", table(("id", "text", "text"), ("t", "y", "z"))),
        Tab("2024", table(HEAD, ("b", "y"))),
    )
    book = read(write(tmp_path / "b.xlsx", *tabs), *HEAD, sheets="visible")
    assert [(sheet.name, [row["id"] for _, row in sheet.records]) for sheet in book.sheets] == [
        ("2023", ["a"]),
        ("2024", ["b"]),
    ]
    assert [
        (note.reason.slug, note.source, note.found, note.reason.facts.default.value) for note in book.notes
    ] == [
        ("header_missing", "b.xlsx", "'about', 'this' in the sheet 'read me'", "error"),
        ("header_duplicate", "b.xlsx", "'text' in the sheet 'twice'", "error"),
    ]


@pytest.mark.parametrize("sheets", ["visible", "first_visible", ("one",)])
def test_where_no_sheet_has_the_header_the_workbook_is_a_fault(tmp_path: Path, sheets: object) -> None:
    tabs = (Tab("one", table(("a",), ("1",))), Tab("two", table(("b",), ("2",))))
    assert fault(write(tmp_path / "b.xlsx", *tabs), sheets=sheets) == "header_missing"
