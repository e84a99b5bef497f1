"""A sheet of zipped XML, a chunk of rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx import any_cells, fast_cells, number_format
from pipeline.readers.xlsx.archive import CHUNK_BYTES, Sheet, WorkbookArchive, read_contents
from pipeline.readers.xlsx.number_format import TextFormatter
from pipeline.readers.xlsx.rows import Area, CellTexts, StoredCells, StoredType
from pipeline.readers.xlsx.strings import (
    FIRST_CHUNK_BYTES,
    MOST_ELEMENT_BYTES,
    SharedStrings,
    is_declared_utf8,
)
from pipeline.readers.xlsx.xml_tags import PADDING, Unusual

_OPEN = re.compile(rb"<((?:\w+:)?)sheetData\b[^>]*?(/?)>")
_MERGED = re.compile(
    rb"<(?:\w+:)?mergeCell\b[^>]*?\bref\s*=\s*[\"']\$?([A-Z]{1,3})\$?(\d{1,7}):\$?([A-Z]{1,3})\$?(\d{1,7})"
)
_AMBIGUOUS = (b"<!", b"<?", b"</sheetData")
"""In a chunk with one of these, what looks like the end of a row or of the rows may not be one."""


class Workbook:
    """An open zipped workbook."""

    def __init__(self, archive: WorkbookArchive) -> None:
        self._archive = archive
        contents = read_contents(archive)
        self.sheets = contents.sheets
        shared, number_styles = (
            SharedStrings(archive, contents.shared),
            number_format.read_number_styles(archive, contents.styles),
        )
        self._format = TextFormatter(shared, number_styles, date1904=contents.date1904)

    def read_cells(self, sheet: Sheet, most_cells: int) -> Iterator[CellTexts]:
        """Cells of a sheet, some rows at a time. Raises ``TaskFault`` for more than ``most_cells``."""
        if sheet.kind != "worksheet":
            return
        count = 0
        for cells in _stored_cells(self._archive, sheet.part):
            count += len(cells.stored)
            if count > most_cells:
                raise TaskFault("file_limit", f"more than {most_cells} cells", f"{most_cells} cells")
            yield self._format(cells)

    def read_areas(self, sheet: Sheet) -> list[Area]:
        """Merged areas of a sheet. They follow the rows, so that the whole part is inflated again."""
        found: list[Area] = []
        rest = b""
        for chunk in self._archive.chunks(sheet.part, CHUNK_BYTES) if sheet.kind == "worksheet" else ():
            data = rest + chunk
            end = 0
            for match in _MERGED.finditer(data):
                left, top, right, bottom = match.groups()
                found.append(Area(int(top), column_index(left), int(bottom), column_index(right)))
                end = match.end()
            rest = data[max(end, len(data) - 200) :]
        return found


def column_index(letters: bytes) -> int:
    """Index of a column from 0: A, B … XFD."""
    index = 0
    for letter in letters:
        index = index * 26 + letter - 64
    return index - 1


def _stored_cells(archive: WorkbookArchive, part: str) -> Iterator[StoredCells]:
    """Cells of a sheet part: by the fast reader, chunk by chunk, and by the XML parser for an unusual chunk, or from
    there to the end of the part."""
    last = 0
    try:
        for chunk in _row_chunks(archive, part):
            try:
                cells = fast_cells.read_fast(chunk + PADDING)
            except Unusual:
                if any(mark in chunk for mark in _AMBIGUOUS):
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
        for parsed in any_cells.stream_rows(part, archive.chunks(part, CHUNK_BYTES)):
            cells = _rows_after(parsed, last)
            if len(cells.rows):
                last = int(cells.rows[-1])
                yield cells


def _rows_after(cells: StoredCells, last: int) -> StoredCells:
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


def _row_chunks(archive: WorkbookArchive, part: str) -> Iterator[bytes]:
    """Bytes of whole ``<row>`` elements, and nothing else.

    Raises ``Unusual`` if bytes do not prove where rows end: with prefixes, comments, CDATA and other encodings.
    """
    pieces, wanted = archive.pieces(part), FIRST_CHUNK_BYTES
    rest, opened, seen = b"", False, 0
    while more := _take_pieces(pieces, wanted):
        wanted = CHUNK_BYTES
        data = b"".join((rest, *more))
        if not opened:
            head = _OPEN.search(data)
            if head is None:
                if len(data) > MOST_ELEMENT_BYTES:
                    raise Unusual("no rows")
                rest = data
                continue
            if head[1] or not is_declared_utf8(data) or b"<!" in data[: head.end()]:
                raise Unusual("an unusual beginning")
            if head[2]:
                return
            data, opened = data[head.end() :], True
        # Search from the end: a search of the whole chunk for the end of the rows takes as long as reading it.
        last = data.rfind(b"</row>", seen)
        end = data.find(b"</sheetData", seen if last < 0 else last)
        cut = end if end >= 0 else last + len(b"</row>")
        if last >= 0 or end >= 0:
            yield data[:cut]
            rest, seen = data[cut:], 0
        else:
            rest, seen = data, max(len(data) - 20, 0)
            if len(rest) > MOST_ELEMENT_BYTES:
                raise TaskFault("file_limit", "a row of more than 64 MB", "64 MB")
        if end >= 0:
            return
    if not opened or rest.strip():
        raise Unusual("an unusual end")


def _take_pieces(pieces: Iterator[bytes], wanted: int) -> list[bytes]:
    """The next pieces, of at least ``wanted`` bytes together unless the part ends before."""
    taken: list[bytes] = []
    while wanted > 0 and (piece := next(pieces, None)) is not None:
        taken.append(piece)
        wanted -= len(piece)
    return taken
