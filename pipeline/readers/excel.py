"""Workbooks: sheets chosen and headers proven by inspection, rows read from a sandboxed child."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
_FOUND_LENGTH = 80
"""Longest excerpt of a cell in a finding."""

Rows = list[tuple[int, list[str | None]]]


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Choose the sheets and prove the header of each: one partition a sheet.

    Hidden sheets that are not read are named, and so are visible ones where only the first is read. A sheet whose
    header does not hold the expected columns costs that sheet, and is a note with the policy ``error``. Raises
    ``FileFault`` for a workbook that cannot be opened, a declared sheet that is missing, or where that is every sheet.
    """
    read_ = schema.read
    header, sheets = read_.header, read_.sheets
    request = {
        "path": str(claim.path),
        "sheets": {"pattern": sheets.pattern} if isinstance(sheets, SheetPattern) else sheets,
        "cells": read_.limits.workbook_cells,
        "head": header if isinstance(header, int) else 0,
    }
    frames = run_task(f"{_TASKS}:inspect", request, _limits(read_), claim.source)
    first: Any = next(frames)
    tabs: list[tuple[str, str, str]] = [(n, s, k) for n, s, k in first["sheets"]]
    partitions: list[Partition] = []
    notes: list[FileNote] = []
    lost: list[FileNote] = []
    taken: set[int] = set()
    frame: Any
    for frame in frames:
        name = tabs[frame["index"]][0]
        taken.add(frame["index"])
        rows: Rows = frame["rows"]
        if not rows:
            notes.append(FileNote(Reason.FILE_EMPTY, claim.source, f"nothing in the sheet {name!r}", "rows"))
            continue
        try:
            names, row = _header(rows, read_, fields, claim.source)
        except FileFault as fault_:
            where = f" in the sheet {name!r}" if len(tabs) > 1 else ""
            lost.append(replace(fault_.note, found=fault_.note.found + where))
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
    if lost and not partitions:
        raise FileFault(lost[0])
    notes += [*lost, *_skipped(claim.source, tabs, taken)]
    return Inspection(tuple(partitions), tuple(notes))


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Read one sheet: see ``pipeline.worker``."""

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        read_ = schema.read
        request = {
            "path": str(path),
            "sheet": partition.sheet,
            "width": len(partition.header),
            "below": partition.first_row - 1,
            "fill": read_.merged == "fill",
            "cells": read_.limits.workbook_cells,
            "rows": BATCH_ROWS,
            "bytes": BATCH_BYTES,
        }
        count = 0
        for frame in run_task(f"{_TASKS}:read", request, _limits(read_), partition.source):
            if isinstance(frame, dict):
                if blank := frame["last"] - partition.first_row + 1 - count:
                    dropped["blank"] = blank
                continue
            batch, marks = _batch(frame, partition, count)
            count += len(batch)
            yield batch, _findings(batch, marks, schema, fields)

    return Reading(batches)


def _limits(read_: Read) -> Limits:
    return Limits(read_.limits.workbook_seconds, read_.limits.workbook_memory_mb)


def _header(rows: Rows, read_: Read, fields: Sequence[Field], source: str) -> tuple[tuple[str, ...], int]:
    """Column names from column A on, and the row they stand in; without a header: none, and row 0."""
    match read_.header:
        case "none":
            return (), 0
        case "first":
            row, cells = rows[0]
        case "find":
            near = [(row, cells) for row, cells in rows[:SEARCH_ROWS] if holds_columns(_names(cells), fields)]
            if not near:
                wanted = ", ".join(map(repr, expected_names(fields)))
                raise file_fault(
                    Reason.HEADER_MISSING, source, f"no such row among the first {SEARCH_ROWS}", wanted
                )
            row, cells = near[0]
        case number:
            row, cells = next(((r, c) for r, c in rows if r == number), (number, []))
    return prove_header(_names(cells), fields, source), row


def _names(cells: Sequence[str | None]) -> list[str]:
    """Names of a header row, without the blank ones at its end."""
    names = clean_names(cells)
    while names and not names[-1]:
        names.pop()
    return names


def _skipped(source: str, sheets: Sequence[tuple[str, str, str]], taken: set[int]) -> list[FileNote]:
    """Sheets that hold cells and are not read: hidden ones, and visible ones."""
    left = [
        (name, state)
        for i, (name, state, kind) in enumerate(sheets)
        if i not in taken and kind == "worksheet"
    ]
    notes = []
    for reason, names in (
        (Reason.SHEET_HIDDEN, [name for name, state in left if state != "visible"]),
        (Reason.SHEET_UNREAD, [name for name, state in left if state == "visible"]),
    ):
        if names:
            notes.append(FileNote(reason, source, ", ".join(map(repr, names[:20]))))
    return notes


def _batch(frame: memoryview, partition: Partition, count: int) -> tuple[Batch, list[list[Any]]]:
    """A batch of the child, and its marks: [row in the batch, column, reason slug, found]."""
    import polars as pl
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(frame)) as stream:
        table = stream.read_next_batch()
    marks: list[list[Any]] = json.loads(table.schema.metadata[b"marks"])
    # Not by to_numpy(), which imports pandas where it is installed.
    rows: Int64s = np.array(np.from_dlpack(table.column(0)), np.int64)
    names = partition.header or tuple(map(str, range(1, table.num_columns)))
    cells = pl.from_arrow(pa.record_batch(table.columns[1:], names=list(names)))
    assert isinstance(cells, pl.DataFrame)  # noqa: S101
    ids = np.arange(count, count + len(rows), dtype=np.int64)
    return Batch(partition.source, partition.sheet, ids, rows, pl.DataFrame(), cells=cells), marks


def _findings(
    batch: Batch, marks: Sequence[Sequence[Any]], schema: Schema, fields: Sequence[Field]
) -> Findings:
    """Marks on columns that are read, as findings."""
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
            found=[found[:_FOUND_LENGTH] for *_, found in hits],
        )
    return findings
