"""Small workbooks, cell by cell."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.readers.handmade import Tab, row, text, write


def cells(*values: str) -> tuple[str, ...]:
    """Cells with inline texts; one that is XML already stays as it is."""
    return tuple(value if value.startswith("<c") else text(value) for value in values)


def book(*rows: tuple[str, ...], name: str = "data", second: str = "", after: str = "") -> bytes:
    """A workbook with one sheet of these rows, counted from 1; ``second`` is the state of another one with the same
    rows, ``after`` XML behind the rows."""
    body = "".join(row(number, *row_) for number, row_ in enumerate(rows, 1))
    tabs = [Tab(name, body, after=after)]
    if second:
        tabs.append(Tab("second", body, state="" if second == "visible" else second))
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / "book.xlsx", *tabs).read_bytes()
