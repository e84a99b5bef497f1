"""Files of every format, the same bytes each time."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import xlsxwriter

Cell: TypeAlias = "str | float | Raw | None"
Row: TypeAlias = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Fault:
    """What was planted where, and what becomes of it: a reason's code, and ``quarantine``, ``repair`` or ``flag``."""

    source: str
    sheet: str
    row: int
    reason: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Raw:
    """A JSON line, or a spreadsheet formula, that stands in the file exactly so."""

    text: str


def json_text(record: object) -> str:
    """One record as a line of JSON; ``Raw`` as it is."""
    return record.text if isinstance(record, Raw) else json.dumps(record, ensure_ascii=False)


def write_lines(path: Path, records: Iterable[object]) -> None:
    """A JSON Lines file."""
    _write(path, "".join(json_text(record) + "\n" for record in records).encode("utf-8", "surrogatepass"))


def write_array(path: Path, records: Iterable[object]) -> None:
    """A JSON array, one record a line."""
    _write(path, ("[\n" + ",\n".join(json_text(record) for record in records) + "\n]\n").encode())


def write_csv(
    path: Path, rows: Iterable[Row | Raw], *, encoding: str = "utf-8", delimiter: str = ","
) -> None:
    """A delimited file; a ``Raw`` row is written as it is."""
    lines: list[str] = []
    for row in rows:
        if isinstance(row, Raw):
            lines.append(row.text + "\r\n")
        else:
            csv.writer(_Sink(lines), delimiter=delimiter).writerow(row)
    _write(path, "".join(lines).encode(encoding))


def write_workbook(path: Path, sheets: dict[str, Sequence[Row]], hidden: Sequence[str] = ()) -> None:
    """A workbook; the first row of a sheet is set in bold, an empty row stays blank, None is a blank cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    book = xlsxwriter.Workbook(str(path), {"strings_to_formulas": False, "strings_to_urls": False})
    book.set_properties({"created": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)})
    bold = book.add_format({"bold": True})
    wrap = book.add_format({"text_wrap": True, "valign": "top"})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        if name in hidden:
            sheet.hide()
        else:
            sheet.activate()
        sheet.set_column(0, 0, 14)
        sheet.set_column(1, 3, 48)
        for y, row in enumerate(rows):
            for x, cell in enumerate(row):
                if isinstance(cell, Raw):
                    sheet.write_formula(y, x, cell.text, None, "#N/A")
                elif cell is not None:
                    sheet.write(y, x, cell, wrap if y else bold)
    book.close()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


class _Sink:
    """Takes the rows a csv writer makes."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def write(self, text: str) -> None:
        self.lines.append(text)
