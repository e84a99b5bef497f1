"""Cells of any well-formed sheet XML, with prefixes, comments, CDATA, rich inline text or missing references."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx.fast_cells import MOST_COLUMNS, MOST_ROWS
from pipeline.readers.xlsx.rows import StoredCells, StoredType
from pipeline.readers.xlsx.xml import Attributes, attribute, feed, local_name, make_parser

BATCH_ROWS = 10_000
_TYPES = {
    "": StoredType.NUMBER,
    "n": StoredType.NUMBER,
    "s": StoredType.SHARED,
    "str": StoredType.TEXT,
    "inlineStr": StoredType.TEXT,
    "b": StoredType.BOOLEAN,
    "e": StoredType.ERROR,
    "d": StoredType.ISO_DATE,
}


class _CellCollector:
    """Collects the cells that the parser reports."""

    def __init__(self, after: int = 0) -> None:
        self.rows: list[int] = []
        self.cells: list[tuple[int, int, StoredType, int, str | None]] = []
        self._row, self._column = after, -1
        self._finished = False
        self._path: list[str] = []
        self._type = ""
        self._style = 0
        self._formula = self._value = self._inline = False
        self._text: list[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        tag = local_name(name)
        self._path.append(tag)
        if self._finished:
            return
        if tag == "row":
            self._start_row(attributes)
        elif tag == "c" and self._row:
            self._start_cell(attributes)
        elif tag == "f":
            self._formula = True
        elif tag == "v" or (tag == "is" and not self._inline):
            # A cell may hold both; Excel then shows the inline text.
            if not self._inline:
                self._text = []
            self._value, self._inline = True, tag == "is" or self._inline

    def end(self, name: str) -> None:
        tag = self._path.pop()
        if tag == "c" and self._row and not self._finished:
            self._end_cell()
        elif tag == "sheetData":
            self._finished = True

    def text(self, text: str) -> None:
        path = self._path
        if not path:
            return
        if (path[-1] == "v" and not self._inline) or (path[-1] == "t" and "is" in path and "rPh" not in path):
            self._text.append(text)

    def _start_row(self, attributes: Attributes) -> None:
        reference = attribute(attributes, "r")
        row = int(reference) if reference.isascii() and reference.isdigit() else self._row + 1
        if not self._row < row <= MOST_ROWS:
            raise TaskFault("file_unreadable", f"row {row} after row {self._row}", "rows in their order")
        self._row, self._column = row, -1
        self.rows.append(row)

    def _start_cell(self, attributes: Attributes) -> None:
        reference = attribute(attributes, "r")
        letters = reference.rstrip("0123456789")
        column = self._column + 1
        if letters:
            column = 0
            for letter in letters.upper():
                column = column * 26 + ord(letter) - 64
            column -= 1
        if not 0 <= column < MOST_COLUMNS:
            raise TaskFault("file_unreadable", "a column beyond the sheet", f"{MOST_COLUMNS} columns")
        self._column = column
        self._type = attribute(attributes, "t")
        style = attribute(attributes, "s", "0")
        self._style = int(style) if style.isascii() and style.isdigit() and len(style) < 9 else 0
        self._formula = self._value = self._inline = False
        self._text = []

    def _end_cell(self) -> None:
        stored = _TYPES.get(self._type, StoredType.INVALID)
        value: str | None = "".join(self._text)
        if self._type == "str" and self._formula:
            stored = StoredType.FORMULA_TEXT
        if not self._value or (not value and not stored.is_text):
            stored, value = (StoredType.FORMULA_EMPTY if self._formula else StoredType.BLANK), None
        self.cells.append((len(self.rows) - 1, self._column, stored, self._style, value))

    def take(self) -> StoredCells:
        """Return the cells of the finished rows and forget them."""
        columns = list(zip(*self.cells, strict=True)) or [(), (), (), (), ()]
        shared = [_shared_index(cell[4]) for cell in self.cells if cell[2] is StoredType.SHARED]
        values = [cell[4] for cell in self.cells if cell[4] is not None and cell[2] is not StoredType.SHARED]
        cells = StoredCells(
            rows=np.array(self.rows, np.int64),
            row_of=np.array(columns[0], np.int64),
            columns=np.array(columns[1], np.int32),
            stored=np.array(columns[2], np.uint8),
            styles=np.array(columns[3], np.int32),
            shared=np.array(shared, np.int64),
            values=pa.array(values, pa.string()),
        )
        self.rows, self.cells = [], []
        return cells


def _shared_index(text: str | None) -> int:
    """Index of a shared string; -1 for an invalid one."""
    reference = (text or "").strip()
    return int(reference) if reference.isascii() and reference.isdigit() and len(reference) < 10 else -1


def read_any(chunk: bytes, after: int = 0) -> StoredCells:
    """Cells of a chunk of whole ``<row>`` elements in UTF-8, which follow row ``after``."""
    collector = _CellCollector(after)
    parser = make_parser(collector.start, collector.end, collector.text)
    feed("the sheet", parser, (b"<sheetData>", chunk, b"</sheetData>"))
    return collector.take()


def stream_rows(part: str, chunks: Iterator[bytes]) -> Iterator[StoredCells]:
    """Cells of a whole sheet part, about ``BATCH_ROWS`` rows at a time."""
    collector = _CellCollector()
    ready: list[StoredCells] = []

    def end(name: str) -> None:
        collector.end(name)
        if len(collector.rows) >= BATCH_ROWS and local_name(name) == "row":
            ready.append(collector.take())

    parser = make_parser(collector.start, end, collector.text)
    for chunk in chunks:
        feed(part, parser, (chunk,), final=False)
        yield from ready
        ready.clear()
    feed(part, parser, ())
    yield from ready
    yield collector.take()
