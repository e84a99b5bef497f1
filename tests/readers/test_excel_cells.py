"""What a cell gives: its text as shown, and what is found in it."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.readers.handmade import Tab, number, row, shared, table, text, write
from tests.readers.sheets import HEAD, one, read, schema


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (number("1"), "1"),
        (number("1.0"), "1"),
        (number("00042"), "42"),
        (number("-0"), "0"),
        (number("0.1"), "0.1"),
        (number("1.1000000000000001"), "1.1"),
        (number("1.5E-12"), "1.5E-12"),
        (number("1.5E-7"), "0.00000015"),
        (number("1.2345E+10"), "12345000000"),
        (number("1E+21"), "1E+21"),
        (number("12345678901234567890"), "12345678901234567890"),
        (number("9007199254740993"), "9007199254740993"),
        (number("0.25", "percent"), "0.25"),
        (number("123456", "scientific"), "123456"),
        (number("42", "postal"), "00042"),
        (number("4.2E+1", "postal"), "00042"),
        (number("123456", "postal"), "123456"),
        (number("-42", "postal"), "-00042"),
        (number("4.5", "postal"), "4.5"),
        (number("7", "signed"), "007"),
        (number("45292", "day"), "2024-01-01"),
        (number("45292.5", "day"), "2024-01-01T12:00:00"),
        (number("45292", "moment"), "2024-01-01T00:00:00"),
        (number("45292.999999999", "moment"), "2024-01-02T00:00:00"),
        (number("0.5", "clock"), "12:00:00"),
        (number("1.75", "hours"), "42:00:00"),
        (number("-5", "day"), "-5"),
        (number("60", "day"), "1900-02-29"),
        (number("1", "day"), "1900-01-01"),
        ('<c r="{at}" t="b"><v>1</v></c>', "TRUE"),
        ('<c r="{at}" t="b"><v>0</v></c>', "FALSE"),
        ('<c r="{at}" t="d"><v>2024-01-31T09:30:00</v></c>', "2024-01-31T09:30:00"),
        (text("00123"), "00123"),
        (text("NA"), "NA"),
        (text("TRUE"), "TRUE"),
        (text("2024-01-01 00:00:00"), "2024-01-01 00:00:00"),
        (text(" edge "), " edge "),
        ('<c r="{at}" t="str"><f>A1</f><v>made</v></c>', "made"),
        ('<c r="{at}" t="inlineStr"><is><r><t>rich</t></r><r><t> text</t></r></is></c>', "rich text"),
        ('<c r="{at}" t="inlineStr"><is><t>base</t><rPh><t>ruby</t></rPh></is></c>', "base"),
        ('<c r="{at}" t="str"><v><![CDATA[<b> & </row>]]></v></c>', "<b> & </row>"),
        (text("a &gt; b &amp;&#10;&#x263A; &lt;"), "a > b &\n☺ <"),
        (text("a > b"), "a > b"),
    ],
)
def test_cells_are_read_as_they_are_shown(tmp_path: Path, cell: str, shown: str) -> None:
    book = one(tmp_path, row(2, text("a"), cell), row(3, text("b"), text("after")))
    assert book.rows == [(2, {"id": "a", "text": shown}), (3, {"id": "b", "text": "after"})]
    assert book.found == []


@pytest.mark.parametrize("extension", ["", '<extLst><x15:workbookPr chartTrackingRefBase="1"/></extLst>'])
def test_dates_count_from_1904_where_the_workbook_says_so(tmp_path: Path, extension: str) -> None:
    rows = table(HEAD) + row(2, text("a"), number("43830", "day")) + row(3, text("b"), number("0.5", "clock"))
    book = read(write(tmp_path / "b.xlsx", Tab("data", rows), date1904=True, more=extension), *HEAD)
    assert [r["text"] for _, r in book.rows] == ["2024-01-01", "12:00:00"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(-(10**15), 10**15),
            st.floats(-1e300, 1e300),
            st.booleans(),
            st.datetimes(datetime.datetime(1901, 1, 1), datetime.datetime(9999, 12, 31)).map(
                lambda d: d.replace(microsecond=0)
            ),
            st.text(
                st.characters(exclude_categories=["Cs"], min_codepoint=9), min_size=1, max_size=30
            ).filter(
                lambda t: (
                    not any(c < " " and c not in "\t\n" for c in t) and max(t) < "\ufffe" and t[0] != "="
                )
            ),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_what_openpyxl_writes_comes_back(tmp_path: Path, values: list[object]) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["id", "text"])
    for i, value in enumerate(values):
        sheet.append([f"r{i}", None])
        cell = sheet.cell(i + 2, 2)
        cell.value = value  # type: ignore[assignment]
        if isinstance(value, str):
            cell.data_type = "s"
    path = tmp_path / "book.xlsx"
    book.save(path)
    rows = read(path, *HEAD).rows
    assert [n for n, _ in rows] == list(range(2, len(values) + 2))
    for value, (_, cells) in zip(values, rows, strict=True):
        shown = cells["text"]
        assert shown is not None
        match value:
            case bool():
                assert shown == str(value).upper()
            case int():
                assert shown == str(value)
            case float():
                assert float(shown) == value or math.isclose(float(shown), value, rel_tol=1e-15)
            case datetime.datetime():
                assert datetime.datetime.fromisoformat(shown) == value
            case str():
                assert shown == value.replace("\r\n", "\n")


@pytest.mark.parametrize("code", ["#REF!", "#N/A", "#DIV/0!", "#SPILL!", "#CALC!", "#GETTING_DATA"])
def test_an_error_cell_costs_its_record_only(tmp_path: Path, code: str) -> None:
    bad = f'<c r="{{at}}" t="e"><f>1/0</f><v>{code}</v></c>'
    book = one(tmp_path, row(2, text("a"), bad), row(3, text("b"), text(code)))
    assert book.sheets[0].findings == [("cell_error", "quarantine", "text", 2, code)]
    assert [r["text"] for _, r in book.rows] == [code, code]


def test_an_error_that_a_formula_left_as_text_is_an_error(tmp_path: Path) -> None:
    as_text = '<c r="{at}" t="str"><f>#REF!</f><v>#REF!</v></c>'
    other = '<c r="{at}" t="str"><f>"#"&amp;A1</f><v>#REF! or so</v></c>'
    book = one(
        tmp_path, row(2, text("a"), as_text), row(3, text("b"), other), row(4, text("c"), text("#REF!"))
    )
    assert book.found == [("cell_error", "text", 2)]


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="{at}" t="n"><v>abc</v></c>',
        '<c r="{at}" t="odd"><v>1</v></c>',
        shared(99),
        number("NaN"),
        number("1e999"),
    ],
)
def test_a_value_that_cannot_be_costs_its_record_only(tmp_path: Path, cell: str) -> None:
    book = one(tmp_path, row(2, text("a"), cell), row(3, text("b"), text("x")))
    assert book.found == [("cell_error", "text", 2)]


def test_an_error_in_a_column_that_is_not_read_is_no_finding(tmp_path: Path) -> None:
    rows = table(("id", "text", "other")) + row(2, text("a"), text("x"), '<c r="{at}" t="e"><v>#REF!</v></c>')
    assert read(write(tmp_path / "b.xlsx", Tab("data", rows)), *HEAD).found == []


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="{at}"><f>A1</f></c>',
        '<c r="{at}"><f>A1</f><v/></c>',
        '<c r="{at}"><f>A1</f><v></v></c>',
        '<c r="{at}" t="str"><f>A1</f></c>',
    ],
)
def test_a_formula_without_a_stored_value_is_found(tmp_path: Path, cell: str) -> None:
    book = one(tmp_path, row(2, text("a"), cell), row(3, text("b"), '<c r="{at}"><f>1</f><v>2</v></c>'))
    assert book.found == [("cell_formula_empty", "text", 2)]
    assert book.rows == [(2, {"id": "a", "text": None}), (3, {"id": "b", "text": "2"})]


def test_a_formula_that_gives_no_text_is_blank_and_no_finding(tmp_path: Path) -> None:
    made_blank = '<c r="{at}" t="str"><f>IF(A1="","","x")</f><v></v></c>'
    book = one(tmp_path, row(2, text("a"), made_blank), row(3, made_blank, made_blank), row(4, text("b")))
    assert book.found == []
    assert [n for n, _ in book.rows] == [2, 4]


def test_a_row_of_nothing_but_a_formula_without_value_is_a_record(tmp_path: Path) -> None:
    assert one(tmp_path, row(2, "", '<c r="{at}"><f>A1</f></c>')).found == [("cell_formula_empty", "text", 2)]


def test_a_policy_of_the_schema_is_the_finding_s(tmp_path: Path) -> None:
    path = write(
        tmp_path / "b.xlsx", Tab("data", table(HEAD) + row(2, text("a"), '<c r="{at}"><f>A1</f></c>'))
    )
    book = read(path, *HEAD, schema_=schema({"cell_formula_empty": "flag"}))
    assert book.sheets[0].findings == [("cell_formula_empty", "flag", "text", 2, "")]


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("first_x000D_\nsecond", "first\nsecond"),
        ("a_x000d_b", "a\nb"),
        ("_x005F_x000D_", "_x000D_"),
        ("tab_x0009_", "tab\t"),
        ("_xD83D__xDE00_", "😀"),
        ("_xD83D_", "�"),
        ("return&#13;\nhere", "return\nhere"),
    ],
)
def test_escapes_are_decoded_and_the_repair_recorded(tmp_path: Path, stored: str, shown: str) -> None:
    rows = (
        table(HEAD)
        + row(2, text("a"), text(stored))
        + row(3, text("b"), shared(0))
        + row(4, text("c"), shared(1))
    )
    path = write(
        tmp_path / "b.xlsx", Tab("data", rows), shared_texts=(f"<t>{stored}</t>", "<t>_x00_ _xGGGG_</t>")
    )
    book = read(path, *HEAD)
    assert [r["text"] for _, r in book.rows] == [shown, shown, "_x00_ _xGGGG_"]
    assert book.found == [("cell_escape_decoded", "text", 2), ("cell_escape_decoded", "text", 3)]
    assert book.sheets[0].findings[0][1] == "repair"


@pytest.mark.parametrize(
    ("cell", "flagged"),
    [("x" * 32_767, True), ("x" * 32_766, False), ("😀" * 16_383 + "x", True), ("x" * 32_768, False)],
)
def test_a_text_as_long_as_a_cell_can_be_is_flagged(tmp_path: Path, cell: str, flagged: bool) -> None:
    book = one(tmp_path, row(2, text("a"), text(cell)))
    assert book.found == ([("possibly_truncated_at_source", "text", 2)] if flagged else [])
    assert book.rows[0][1]["text"] == cell


MERGED = Tab(
    "data",
    table(
        ("id", "group", "text"),
        ("a1", "north", "one"),
        ("a2", "", "two"),
        ("a3", "south", "x"),
        ("a4", "", "y"),
    ),
    after='<mergeCells count="2"><mergeCell ref="B2:B3"/><mergeCell ref="B7:C9"/></mergeCells>',
)


def test_merged_areas_are_filled_where_that_is_declared_and_nothing_else_is(tmp_path: Path) -> None:
    path = write(tmp_path / "b.xlsx", MERGED)
    plain = read(path, "id", optional=("group", "text"))
    assert [r["group"] for _, r in plain.rows] == ["north", None, "south", None]
    assert plain.found == []
    filled = read(path, "id", optional=("group", "text"), merged="fill")
    assert [r["group"] for _, r in filled.rows] == ["north", "north", "south", None]
    assert filled.sheets[0].findings == [("merged_cell_filled", "repair", "group", 3, "")]


def test_a_merged_area_fills_rows_far_below_its_first_cell(tmp_path: Path) -> None:
    count = 25_000
    rows = table(("id", "group"), ("r2", "all")) + "".join(row(i, text(f"r{i}")) for i in range(3, count + 2))
    after = f'<mergeCells><mergeCell ref="B2:B{count + 1}"/></mergeCells>'
    book = read(write(tmp_path / "b.xlsx", Tab("data", rows, after=after)), "id", "group", merged="fill")
    assert len(book.rows) == count
    assert {r["group"] for _, r in book.rows} == {"all"}
    assert len(book.found) == count - 1
