"""A sheet of zipped XML, a chunk of rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx import any_cells, fast_cells, number_format
from pipeline.readers.xlsx.archive import CHUNK, Sheet, WorkbookArchive, read_contents
from pipeline.readers.xlsx.number_format import TextFormatter
from pipeline.readers.xlsx.rows import Area, CellTexts, StoredCells, StoredType
from pipeline.readers.xlsx.strings import FIRST_CHUNK, LONGEST, SharedStrings, is_declared_utf8
from pipeline.readers.xlsx.xml_tags import PAD, Unusual

_OPEN = re.compile(rb"<((?:\w+:)?)sheetData\b[^>]*?(/?)>")
_MERGED = re.compile(
    rb"<(?:\w+:)?mergeCell\b[^>]*?\bref\s*=\s*[\"']\$?([A-Z]{1,3})\$?(\d{1,7}):\$?([A-Z]{1,3})\$?(\d{1,7})"
)
_DOUBTFUL = (b"<!", b"<?", b"</sheetData")
"""Where these stand in a chunk, what looks like the end of a row or of the rows may be none."""


class Workbook:
    """An open zipped workbook."""

    def __init__(self, package: WorkbookArchive) -> None:
        self._package = package
        found = read_contents(package)
        self.sheets = found.sheets
        shared, shows = (
            SharedStrings(package, found.shared),
            number_format.read_number_styles(package, found.styles),
        )
        self._texts = TextFormatter(shared, shows, date1904=found.date1904)

    def placed(self, sheet: Sheet, most_cells: int) -> Iterator[CellTexts]:
        """Cells of a sheet, some rows at a time. Raises ``TaskFault`` for more than ``most_cells``."""
        if sheet.kind != "worksheet":
            return
        count = 0
        for cells in _cells(self._package, sheet.part):
            count += len(cells.stored)
            if count > most_cells:
                raise TaskFault("file_limit", f"more than {most_cells} cells", f"{most_cells} cells")
            yield self._texts(cells)

    def areas(self, sheet: Sheet) -> list[Area]:
        """Merged areas of a sheet. They stand after the rows, so that the whole part is inflated for them."""
        found: list[Area] = []
        rest = b""
        for chunk in self._package.chunks(sheet.part, CHUNK) if sheet.kind == "worksheet" else ():
            data = rest + chunk
            end = 0
            for match in _MERGED.finditer(data):
                left, top, right, bottom = match.groups()
                found.append(Area(int(top), column(left), int(bottom), column(right)))
                end = match.end()
            rest = data[max(end, len(data) - 200) :]
        return found


def column(letters: bytes) -> int:
    """Index of a column from 0: A, B … XFD."""
    index = 0
    for letter in letters:
        index = index * 26 + letter - 64
    return index - 1


def _cells(package: WorkbookArchive, part: str) -> Iterator[StoredCells]:
    """Cells of a sheet part: the fast way chunk by chunk, the exact way for chunks, or from where it must."""
    last = 0
    try:
        for chunk in _chunks(package, part):
            try:
                cells = fast_cells.read_fast(chunk + PAD)
            except Unusual:
                if any(mark in chunk for mark in _DOUBTFUL):
                    raise
                cells = any_cells.read_any(chunk, last)
            if len(cells.rows):
                if cells.rows[0] <= last:
                    raise TaskFault(
                        "file_unreadable", f"row {cells.rows[0]} after row {last}", "rows in order"
                    )
                last = int(cells.rows[-1])
                yield cells
    except Unusual:
        for whole in any_cells.stream_rows(part, package.chunks(part, CHUNK)):
            cells = _after(whole, last)
            if len(cells.rows):
                last = int(cells.rows[-1])
                yield cells


def _after(cells: StoredCells, last: int) -> StoredCells:
    """Cells of the rows after row ``last``."""
    first = int(np.searchsorted(cells.rows, last, side="right"))
    if first == 0:
        return cells
    keep = cells.row_of >= first
    return StoredCells(
        cells.rows[first:],
        cells.row_of[keep] - first,
        cells.columns[keep],
        cells.stored[keep],
        cells.styles[keep],
        cells.shared[keep[cells.stored == StoredType.SHARED]],
        cells.values.filter(pa.array(keep[cells.valued()])),
    )


def _chunks(package: WorkbookArchive, part: str) -> Iterator[bytes]:
    """Bytes of whole ``<row>`` elements, and nothing else.

    Raises ``Unusual`` where row borders cannot be told by their bytes: prefixes, comments, CDATA, other encodings.
    """
    pieces, wanted = package.pieces(part), FIRST_CHUNK
    rest, opened, seen = b"", False, 0
    while more := _some(pieces, wanted):
        wanted = CHUNK
        data = b"".join((rest, *more))
        if not opened:
            head = _OPEN.search(data)
            if head is None:
                if len(data) > LONGEST:
                    raise Unusual("no rows")
                rest = data
                continue
            if head[1] or not is_declared_utf8(data) or b"<!" in data[: head.end()]:
                raise Unusual("an unusual beginning")
            if head[2]:
                return
            data, opened = data[head.end() :], True
        # From the end: looking through all of it for the end of the rows would take as long as reading them.
        last = data.rfind(b"</row>", seen)
        end = data.find(b"</sheetData", seen if last < 0 else last)
        cut = end if end >= 0 else last + len(b"</row>")
        if last >= 0 or end >= 0:
            yield data[:cut]
            rest, seen = data[cut:], 0
        else:
            rest, seen = data, max(len(data) - 20, 0)
            if len(rest) > LONGEST:
                raise TaskFault("file_limit", "a row of more than 64 MB", "64 MB")
        if end >= 0:
            return
    if not opened or rest.strip():
        raise Unusual("an unusual end")


def _some(pieces: Iterator[bytes], wanted: int) -> list[bytes]:
    """The next pieces, together of at least ``wanted`` bytes where there are as many."""
    taken: list[bytes] = []
    while wanted > 0 and (piece := next(pieces, None)) is not None:
        taken.append(piece)
        wanted -= len(piece)
    return taken
