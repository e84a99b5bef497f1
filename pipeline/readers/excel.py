"""Workbooks: inspection chooses the sheets and proves their headers; a child process reads the rows.

The child runs the tasks of ``readers.xlsx`` in the sandbox, so that no workbook can hang or crash a run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings, Int64s
from pipeline.findings import FileFault, FileNote, file_fault
from pipeline.readers.formats import BATCH_BYTES, BATCH_ROWS, Inspection, Partition, Reading
from pipeline.readers.header import SEARCH_ROWS, clean_names, expected_names, holds_columns, prove_header
from pipeline.readers.sandbox_parent import Limits, run_task
from pipeline.reasons import Reason
from pipeline.schema.reading import SheetPattern

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import Read

_TASKS = "pipeline.readers.xlsx.tasks"
_EXCERPT_LENGTH = 80
"""Longest excerpt of a cell in a finding."""

Rows = list[tuple[int, list[str | None]]]


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Choose the sheets and prove the header of each: one partition a sheet.

    Notes name the sheets that hold cells and are not read. A sheet whose header lacks the expected columns costs only
    that sheet and is noted. Raises ``FileFault`` for a workbook that cannot be opened, for a declared sheet that is
    missing, and if no chosen sheet has the expected columns.
    """
    options = schema.read
    header, wanted = options.header, options.sheets
    request = {
        "path": str(claim.path),
        "sheets": {"pattern": wanted.pattern} if isinstance(wanted, SheetPattern) else wanted,
        "cells": options.limits.workbook_cells,
        "head": header if isinstance(header, int) else 0,
    }
    frames = run_task(f"{_TASKS}:inspect", request, _task_limits(options), claim.source)
    listing: Any = next(frames)
    sheets: list[tuple[str, str, str]] = [(n, s, k) for n, s, k in listing["sheets"]]
    partitions: list[Partition] = []
    notes: list[FileNote] = []
    unproven: list[FileNote] = []
    taken: set[int] = set()
    frame: Any
    for frame in frames:
        name = sheets[frame["index"]][0]
        taken.add(frame["index"])
        rows: Rows = frame["rows"]
        if not rows:
            notes.append(FileNote(Reason.FILE_EMPTY, claim.source, f"nothing in the sheet {name!r}", "rows"))
            continue
        try:
            names, row = _find_header(rows, options, fields, claim.source)
        except FileFault as fault:
            where = f" in the sheet {name!r}" if len(sheets) > 1 else ""
            unproven.append(replace(fault.note, found=fault.note.found + where))
            continue
        partitions.append(
            Partition(
                claim.source,
                claim.schema_index,
                "excel",
                len(partitions),
                name,
                first_row=row + 1,
                header=names,
            )
        )
    if unproven and not partitions:
        raise FileFault(unproven[0])
    notes += [*unproven, *_unread_sheets(claim.source, sheets, taken)]
    return Inspection(tuple(partitions), tuple(notes))


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of the cells of one sheet; blank rows are dropped and counted."""

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        options = schema.read
        request = {
            "path": str(path),
            "sheet": partition.sheet,
            "width": len(partition.header),
            "below": partition.first_row - 1,
            "fill": options.merged == "fill",
            "cells": options.limits.workbook_cells,
            "rows": BATCH_ROWS,
            "bytes": BATCH_BYTES,
        }
        count = 0
        for frame in run_task(f"{_TASKS}:read", request, _task_limits(options), partition.source):
            if isinstance(frame, dict):
                if blank := frame["last"] - partition.first_row + 1 - count:
                    dropped["blank"] = blank
                continue
            batch, marks = _decode_batch(frame, partition, count)
            count += len(batch)
            yield batch, _findings(batch, marks, schema, fields)

    return Reading(batches)


def _task_limits(options: Read) -> Limits:
    return Limits(options.limits.workbook_seconds, options.limits.workbook_memory_mb)


def _find_header(
    rows: Rows, options: Read, fields: Sequence[Field], source: str
) -> tuple[tuple[str, ...], int]:
    """Column names from column A on, and the row of the header; no names and row 0 without a header."""
    match options.header:
        case "none":
            return (), 0
        case "first":
            row, cells = rows[0]
        case "find":
            matching = [
                (row, cells)
                for row, cells in rows[:SEARCH_ROWS]
                if holds_columns(_header_names(cells), fields)
            ]
            if not matching:
                wanted = ", ".join(map(repr, expected_names(fields)))
                raise file_fault(
                    Reason.HEADER_MISSING, source, f"no such row among the first {SEARCH_ROWS}", wanted
                )
            row, cells = matching[0]
        case number:
            row, cells = next(((r, c) for r, c in rows if r == number), (number, []))
    return prove_header(_header_names(cells), fields, source), row


def _header_names(cells: Sequence[str | None]) -> list[str]:
    """Names of a header row, without blank names at the end."""
    names = clean_names(cells)
    while names and not names[-1]:
        names.pop()
    return names


def _unread_sheets(source: str, sheets: Sequence[tuple[str, str, str]], taken: set[int]) -> list[FileNote]:
    """Notes on sheets that hold cells and are not read: the hidden ones, and the visible ones."""
    unread = [
        (name, state)
        for i, (name, state, kind) in enumerate(sheets)
        if i not in taken and kind == "worksheet"
    ]
    notes = []
    for reason, names in (
        (Reason.SHEET_HIDDEN, [name for name, state in unread if state != "visible"]),
        (Reason.SHEET_UNREAD, [name for name, state in unread if state == "visible"]),
    ):
        if names:
            notes.append(FileNote(reason, source, ", ".join(map(repr, names[:20]))))
    return notes


def _decode_batch(frame: memoryview, partition: Partition, count: int) -> tuple[Batch, list[list[Any]]]:
    """A batch from the child, and its marks: [row in the batch, column, reason slug, found]."""
    with pa.ipc.open_stream(pa.py_buffer(frame)) as stream:
        table = stream.read_next_batch()
    marks: list[list[Any]] = json.loads(table.schema.metadata[b"marks"])
    # to_numpy() would import pandas if it is installed.
    rows: Int64s = np.array(np.from_dlpack(table.column(0)), np.int64)
    names = partition.header or tuple(map(str, range(1, table.num_columns)))
    cells = pl.from_arrow(pa.record_batch(table.columns[1:], names=list(names)))
    assert isinstance(cells, pl.DataFrame)  # noqa: S101
    ids = np.arange(count, count + len(rows), dtype=np.int64)
    return Batch(partition.source, partition.sheet, ids, rows, pl.DataFrame(), cells=cells), marks


def _findings(
    batch: Batch, marks: Sequence[Sequence[Any]], schema: Schema, fields: Sequence[Field]
) -> Findings:
    """The marks on columns that the schema reads, as findings."""
    findings = Findings()
    assert batch.cells is not None  # noqa: S101
    columns, wanted = batch.cells.columns, set(expected_names(fields))
    kept = [(reason, columns[c], row, found) for row, c, reason, found in marks if columns[c] in wanted]
    kept.sort(key=lambda mark: mark[:3])
    for (slug, column), group in groupby(kept, key=lambda mark: mark[:2]):
        hits = list(group)
        reason = Reason.of(slug)
        findings.add(
            reason,
            schema.policy(reason),
            column,
            batch.ids[[row for _, _, row, _ in hits]],
            found=[found[:_EXCERPT_LENGTH] for *_, found in hits],
        )
    return findings
