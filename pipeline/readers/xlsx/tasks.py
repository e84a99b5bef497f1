"""The tasks of the sandboxed child: list the sheets of a workbook with their first rows, and read one sheet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx import archive
from pipeline.readers.xlsx import sheet as xlsx
from pipeline.readers.xlsx.archive import Sheet, WorkbookArchive
from pipeline.readers.xlsx.rows import CellTexts, RowBlock, RowBlockBuilder, resize_blocks

HEAD_ROWS = 50
"""Rows of a sheet that are searched for its header; blank rows do not count."""
WIDEST = 16_384


def inspect(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The sheets of a workbook, and the first rows of the chosen ones.

    The request: ``path``; ``sheets`` as in the schema (a word, a list of names and indices, or {"pattern": …});
    ``cells``, the limit; ``head``, the number of rows to return at least.

    Yields one ``{"sheets": [[name, state, kind], …]}``, then for each chosen sheet ``{"index": i, "rows": [[number,
    [text, …]], …]}``.
    """
    book = _open_workbook(Path(request["path"]))
    yield {"sheets": [[sheet.name, sheet.state, sheet.kind] for sheet in book.sheets]}
    for index in choose_sheets(book.sheets, request["sheets"]):
        yield {"index": index, "rows": _first_rows(book, book.sheets[index], request)}


def read(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any] | memoryview]:
    """Rows of one sheet below its header.

    The request: ``path``; ``sheet``, its name; ``width``, the number of columns from A, or 0 for all; ``below``, the
    row of the header, or 0; ``fill``, whether to fill merged areas; ``cells``, the limit; ``rows`` and ``bytes`` of a
    batch.

    Yields Arrow IPC streams of one batch: ``row`` int64 and a string column a sheet column, with the marks as JSON in
    the schema's metadata; at the end ``{"last": number of the last row that is not blank}``.
    """
    book = _open_workbook(Path(request["path"]))
    sheet = next((s for s in book.sheets if s.name == request["sheet"]), None)
    if sheet is None:
        raise TaskFault("file_changed", "the sheet is gone")
    below, width = request["below"], request["width"] or _sheet_width(book, sheet, request["cells"])
    areas = book.read_areas(sheet) if request["fill"] else []
    blocks = RowBlockBuilder(width, below, areas)
    last = below
    for block in resize_blocks(
        (blocks(cells) for cells in book.read_cells(sheet, request["cells"])),
        request["rows"],
        request["bytes"],
    ):
        last = int(block.rows[-1])
        yield _encode_block(block)
    yield {"last": last}


def choose_sheets(
    sheets: Sequence[Sheet], wanted: str | Sequence[str | int] | Mapping[str, str]
) -> list[int]:
    """Indices of the sheets to read, in the order of the workbook or of the list.

    Raises ``TaskFault`` if a declared sheet is missing.
    """
    cells = [i for i, s in enumerate(sheets) if s.kind in ("worksheet", "unreadable")]
    visible = [i for i in cells if sheets[i].state == "visible"]
    if wanted == "first_visible":
        return visible[:1]
    if wanted == "visible":
        return visible
    if isinstance(wanted, Mapping):
        found = [i for i in visible if re.search(wanted["pattern"], sheets[i].name)]
        if not found:
            raise _missing(f"a name like {wanted['pattern']}", sheets)
        return found
    indices = []
    for name in wanted:
        index = name if isinstance(name, int) else _index_of(sheets, str(name))
        if index is None or not -1 < index < len(sheets):
            raise _missing(repr(name), sheets)
        if index not in indices:
            indices.append(index)
    return indices


def _index_of(sheets: Sequence[Sheet], name: str) -> int | None:
    return next((i for i, sheet in enumerate(sheets) if sheet.name == name), None)


def _missing(expected: str, sheets: Sequence[Sheet]) -> TaskFault:
    names = ", ".join(repr(sheet.name) for sheet in sheets[:20])
    return TaskFault("sheet_missing", names or "no sheet", expected)


def _open_workbook(path: Path) -> Any:
    kind = archive.workbook_format(path)
    if kind == "xlsx":
        return xlsx.Workbook(WorkbookArchive(path))
    # Imported here, because most workbooks do not need it.
    from pipeline.readers.xlsx import other_formats

    return other_formats.Workbook(path, kind)


def _first_rows(book: Any, sheet: Sheet, request: Mapping[str, Any]) -> list[tuple[int, list[str | None]]]:
    """The first rows that are not blank: row number, and texts from column A."""
    found: list[tuple[int, list[str | None]]] = []
    for cells in book.read_cells(sheet, request["cells"]):
        block = RowBlockBuilder(_count_columns(cells), 0)(cells)
        rows = block.rows.tolist()
        texts = zip(
            *(column.slice(0, HEAD_ROWS + request["head"]).to_pylist() for column in block.columns),
            strict=True,
        )
        found += [(row, list(cells)) for row, cells in zip(rows, texts, strict=False)]
        if len(found) >= HEAD_ROWS and found[-1][0] >= request["head"]:
            break
    return found


def _count_columns(cells: CellTexts) -> int:
    """Number of columns from A that these cells use."""
    return min(int(cells.columns[cells.filled].max(initial=0)) + 1, WIDEST)


def _sheet_width(book: Any, sheet: Sheet, cells: int) -> int:
    return max((_count_columns(cells) for cells in book.read_cells(sheet, cells)), default=1)


def _encode_block(block: RowBlock) -> memoryview:
    """One batch as an Arrow IPC stream, with the marks in the metadata."""
    import json

    names = ["row", *map(str, range(len(block.columns)))]
    arrays = [pa.array(block.rows.astype(np.int64)), *block.columns]
    batch = pa.record_batch(arrays, names=names)
    schema = batch.schema.with_metadata({"marks": json.dumps(block.marks)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())
