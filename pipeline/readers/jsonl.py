"""JSON Lines: one JSON value a line. The reader splits lines; the cast stage decodes and judges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings, Int64s
from pipeline.findings import FileNote
from pipeline.readers.blocks import Block, blocks, repack, text_pieces
from pipeline.readers.csv_quotes import RecordEnds, line_breaks
from pipeline.readers.encoding import Encoding, bom_encoding, prove_encoding
from pipeline.readers.formats import Inspection, Partition, Reading
from pipeline.reasons import Reason
from pipeline.values.text_checks import is_clean

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the encoding and cut a large file into ranges of whole lines.

    JSON is UTF-8: without a byte order mark and declared encodings, a line that is not UTF-8 costs only that line.
    """
    from pipeline.readers.ranges import cut_ranges

    with claim.path.open("rb") as file:
        encoding = bom_encoding(file.read(4))
    if schema.read.encodings or (encoding is not None and encoding.codec != "utf-8"):
        encoding = prove_encoding(claim.path, claim.source, schema.read.encodings)
    encoding = encoding or Encoding("utf-8")
    if claim.bytes <= encoding.bom_bytes:
        return Inspection(
            (), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "one JSON object a line"),)
        )
    start = encoding.bom_bytes if encoding.codec == "utf-8" else 0
    partition = Partition(claim.source, claim.schema_index, "jsonl", start=start, encoding=encoding.codec)
    return Inspection(cut_ranges(claim, schema, partition, find_lines, of_lines=True))


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of raw lines, each with its line break. Blank lines are dropped and counted."""
    limit = schema.read.limits.record_mb * 2**20

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        found = blocks(text_pieces(path, partition), find_lines, line=partition.first_row, limit=limit)
        return repack(batch_of_block(block, partition, schema, limit, dropped) for block in found)

    return Reading(batches)


def slice_lines(data: bytes, ends: Int64s, type_: pa.DataType | None = None) -> pa.Array:
    """The lines, each with its line break, without a copy: binary [lines], or another type of bytes. ``ends`` is int64
    [lines]."""
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_ or pa.binary(), len(ends), buffers)


def find_lines(data: bytes, final: bool) -> RecordEnds:
    """The records of a block where every line is a record."""
    breaks = line_breaks(data, final)
    if final and data and (not len(breaks) or breaks[-1] < len(data)):
        breaks = np.append(breaks, len(data))
    return RecordEnds(breaks, breaks, np.arange(len(breaks)))


def batch_of_block(
    block: Block, partition: Partition, schema: Schema, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    """The records of a block as a batch of raw values with ids from 0, their findings, and their size in bytes."""
    offsets = np.concatenate([[0], block.ends])
    raw = slice_lines(block.data, block.ends)
    rows = block.line + np.arange(len(block.ends), dtype=np.int64)
    array = np.frombuffer(block.data, np.uint8)
    filled = array[offsets[:-1]] > ord(" ")
    for index in np.flatnonzero(~filled).tolist():
        filled[index] = bool(block.data[offsets[index] : offsets[index + 1]].strip(b" \t\r\n"))
    if not filled.all():
        raw, rows = raw.filter(pa.array(filled)), rows[filled]
        dropped["blank"] += len(filled) - len(rows)
    findings, unread = Findings(), None
    ids = np.arange(len(rows), dtype=np.int64)
    if block.oversized:
        unread = np.ones(1, bool)
        policy = schema.policy(Reason.LINE_TOO_LONG)
        findings.add(Reason.LINE_TOO_LONG, policy, "", ids, found=str(block.oversized), expected=str(limit))
    clean = is_clean(block.data, json=True)
    batch = Batch(partition.source, None, ids, rows, pl.DataFrame(), raw=raw, unread=unread, clean=clean)
    return batch, findings, len(block.data)
