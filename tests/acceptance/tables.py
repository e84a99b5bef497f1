"""Rows of delimited text and workbooks as far as a look needs them: the header may stand below a title, a field may be
of any length, a sheet may have a cell far away."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

ROWS = 5_000
"""Rows looked at in one table."""
SEARCHED = 50
"""First rows among which the header is looked for."""
DELIMITERS = ",;\t|"


def delimited(text: str, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Records of delimited text whose header has the ``wanted`` names, or is the first row with two cells."""
    csv.field_size_limit(2**31 - 1)
    lines = io.StringIO(text.replace("\0", ""), newline=None)
    whole = lines.read()
    head = whole.split("\n")[:SEARCHED]
    delimiter = max(DELIMITERS, key=lambda mark: _likeness(head, mark, wanted))
    rows = (row for row in csv.reader(io.StringIO(whole), delimiter=delimiter) if any(c.strip() for c in row))
    try:
        found = list(islice(rows, ROWS))
    except csv.Error:
        return
    yield from records(found, wanted)


def workbook(path: Path, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Records of the visible sheets of a workbook; none of a broken one."""
    import openpyxl

    try:
        book = openpyxl.load_workbook(path, data_only=True, read_only=True)
    except Exception:  # whatever a broken workbook raises: there is nothing to look at
        return
    for sheet in book.worksheets:
        if sheet.sheet_state != "visible":
            continue
        sheet.reset_dimensions()  # a stated dimension may be wrong
        rows: list[list[Any]] = []
        with suppress(Exception):  # the same of a broken sheet
            rows = [_trimmed(row) for row in islice(sheet.iter_rows(values_only=True), ROWS)]
        yield from records([row for row in rows if row], wanted)


def records(rows: Sequence[Sequence[Any]], wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows below the header by its names."""
    head = [_names(row) for row in rows[:SEARCHED]]
    if not head:
        return
    known = {name.lower() for name in wanted}
    scores = [len(known & {name.lower() for name in names}) for names in head]
    if max(scores):
        at = scores.index(max(scores))
    else:
        at = next((i for i, names in enumerate(head) if sum(map(bool, names)) > 1), 0)
    yield from (dict(zip(head[at], row, strict=False)) for row in rows[at + 1 :])


def _likeness(lines: Iterable[str], delimiter: str, wanted: Sequence[str]) -> tuple[int, int]:
    """How many wanted names a line has when it is split so, and how often the first split line is."""
    known = {name.lower() for name in wanted}
    split = [[cell.strip().strip('"').lower() for cell in line.split(delimiter)] for line in lines]
    counts = [len(cells) - 1 for cells in split if len(cells) > 1]
    return max((len(known & set(cells)) for cells in split), default=0), next(iter(counts), 0)


def _names(row: Sequence[Any]) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in row]


def _trimmed(row: tuple[Any, ...]) -> list[Any]:
    """The row without blank cells at its end."""
    cells = list(row)
    while cells and cells[-1] is None:
        cells.pop()
    return cells
