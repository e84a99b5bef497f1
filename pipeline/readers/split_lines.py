"""Declared line formats: each line is split at its first separators, and the last field may take the rest.

A line is a row, and quotes have no meaning. This is for files that no CSV grammar reads, such as eight numbers followed
by free text, or tab-separated tokens with one page a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings
from pipeline.findings import FileNote, file_fault
from pipeline.readers import header
from pipeline.readers.blocks import Block, blocks, repack, text_pieces
from pipeline.readers.encoding import prove_encoding
from pipeline.readers.formats import Inspection, Partition, Reading
from pipeline.readers.jsonl import find_lines, slice_lines
from pipeline.reasons import Reason
from pipeline.values.text_checks import is_clean

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import LineFormat


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the encoding, and that the declared fields hold the columns the schema expects."""
    from pipeline.readers.ranges import cut_ranges

    form = schema.read.line_format
    if form is None:
        raise file_fault(Reason.LINE_FORMAT, claim.source, "no `read: line_format:`", "the fields of a line")
    columns = header.prove_header(form.fields, fields, claim.source)
    encoding = prove_encoding(claim.path, claim.source, schema.read.encodings)
    if claim.bytes <= encoding.bom_bytes:
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "lines"),))
    decimal = schema.read.decimal
    partition = Partition(
        claim.source,
        claim.schema_index,
        "lines",
        start=encoding.bom_bytes if encoding.codec == "utf-8" else 0,
        header=columns,
        encoding=encoding.codec,
        delimiter=form.separator,
        decimal="."
        if decimal == "auto" and form.separator == ","
        else ".,"
        if decimal == "auto"
        else decimal,
    )
    return Inspection(cut_ranges(claim, schema, partition, find_lines, of_lines=True))


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of cells: String columns by field name, null for an empty field. Blank lines are dropped and counted."""
    form = schema.read.line_format
    assert form is not None  # noqa: S101 - inspection proved it
    limit = schema.read.limits.record_mb * 2**20

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        found = blocks(text_pieces(path, partition), find_lines, line=partition.first_row, limit=limit)
        return repack(_batch_of_block(block, partition, schema, form, limit, dropped) for block in found)

    return Reading(batches)


def _batch_of_block(
    block: Block, partition: Partition, schema: Schema, form: LineFormat, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    sliced = slice_lines(block.data, block.ends, pa.string())
    lines = pl.Series("line", pl.from_arrow(sliced)).str.strip_chars_end("\r\n")
    filled = (lines.str.strip_chars() != "").to_numpy()
    rows = (block.line + np.arange(len(lines), dtype=np.int64))[filled]
    lines = lines.filter(pl.Series(filled))
    dropped["blank"] += len(filled) - len(rows)
    count = len(form.fields)
    parts = lines.str.splitn(form.separator, count + (not form.rest)).struct
    cells = pl.DataFrame([_blank_as_null(parts[i], name) for i, name in enumerate(partition.header)])
    counts = lines.str.count_matches(form.separator, literal=True).to_numpy().astype(np.int64) + 1
    wrong_lines = counts < count if form.rest else counts != count
    ids = np.arange(len(rows), dtype=np.int64)
    findings, raw, unread = Findings(), None, None
    if block.oversized:
        wrong_lines = np.ones(len(rows), bool)
        findings.add(
            Reason.LINE_TOO_LONG,
            schema.policy(Reason.LINE_TOO_LONG),
            "",
            ids,
            found=str(block.oversized),
            expected=str(limit),
        )
    elif wrong_lines.any():
        expected = f"{'at least ' if form.rest else ''}{count} fields"
        findings.add(
            Reason.LINE_FORMAT,
            schema.policy(Reason.LINE_FORMAT),
            "",
            ids[wrong_lines],
            found=[f"{n} fields" for n in counts[wrong_lines].tolist()],
            expected=expected,
        )
    if wrong_lines.any():
        unread, good = wrong_lines, pl.Series(~wrong_lines)
        cells = cells.select(pl.when(good).then(pl.all()))
        raw = pa.array(
            [line.encode() if wrong else None for line, wrong in zip(lines, wrong_lines, strict=True)],
            pa.binary(),
        )
    batch = Batch(
        partition.source,
        None,
        ids,
        rows,
        pl.DataFrame(),
        cells,
        raw,
        unread,
        partition.decimal,
        is_clean(block.data),
    )
    return batch, findings, len(block.data)


def _blank_as_null(column: pl.Series, name: str) -> pl.Series:
    """The column with null for an empty field."""
    return column.rename(name).to_frame().select(pl.when(pl.col(name) != "").then(pl.col(name))).to_series()
