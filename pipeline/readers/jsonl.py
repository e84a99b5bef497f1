"""JSON Lines: one JSON value a line. The reader splits lines; what a line holds is judged by the cast stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, Int64s
from pipeline.findings import FileNote
from pipeline.readers.blocks import Block, blocks, repack, text_pieces
from pipeline.readers.csv_quotes import RecordEnds, line_breaks
from pipeline.readers.encoding import Encoding, marked, prove
from pipeline.readers.formats import Inspection, Partition, Reading
from pipeline.reasons import Reason
from pipeline.values.text_checks import is_clean

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the encoding and cut a large file into ranges of whole lines.

    JSON is UTF-8: without a mark and without declared encodings, a line that is not UTF-8 is that line's own fault.
    """
    from pipeline.readers.ranges import ranges

    with claim.path.open("rb") as file:
        encoding = marked(file.read(4))
    if schema.read.encodings or (encoding is not None and encoding.codec != "utf-8"):
        encoding = prove(claim.path, claim.source, schema.read.encodings)
    encoding = encoding or Encoding("utf-8")
    if claim.bytes <= encoding.mark:
        return Inspection(
            (), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "one JSON object a line"),)
        )
    start = encoding.mark if encoding.codec == "utf-8" else 0
    partition = Partition(claim.source, claim.schema_index, "jsonl", start=start, encoding=encoding.codec)
    return Inspection(ranges(claim, schema, partition, lines_of, of_lines=True))


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of raw lines, each with its line break; blank lines are dropped and counted."""
    limit = schema.read.limits.record_mb * 2**20

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        found = blocks(text_pieces(path, partition), lines_of, line=partition.first_row, limit=limit)
        return repack(piece(block, partition, schema, limit, dropped) for block in found)

    return Reading(batches)


def lines(data: bytes, ends: Int64s, type_: pa.DataType | None = None) -> pa.Array:
    """Each line with its line break, by where it ends: binary [lines], or as another type of bytes."""
    import pyarrow as pa

    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_ or pa.binary(), len(ends), buffers)


def lines_of(data: bytes, final: bool) -> RecordEnds:
    """Every line break is a border."""
    breaks = line_breaks(data, final)
    if final and data and (not len(breaks) or breaks[-1] < len(data)):
        breaks = np.append(breaks, len(data))
    return RecordEnds(breaks, breaks, np.arange(len(breaks)))


def piece(
    block: Block, partition: Partition, schema: Schema, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    """The records of a block, one a border, as a batch with ids from 0, what was found on them, and their size in
    bytes."""
    import polars as pl
    import pyarrow as pa

    offsets = np.concatenate([[0], block.ends])
    raw = lines(block.data, block.ends)
    rows = block.line + np.arange(len(block.ends), dtype=np.int64)
    array = np.frombuffer(block.data, np.uint8)
    filled = array[offsets[:-1]] > ord(" ")
    for place in np.flatnonzero(~filled).tolist():
        filled[place] = bool(block.data[offsets[place] : offsets[place + 1]].strip(b" \t\r\n"))
    if not filled.all():
        raw, rows = raw.filter(pa.array(filled)), rows[filled]
        dropped["blank"] += len(filled) - len(rows)
    findings, unread = Findings(), None
    ids = np.arange(len(rows), dtype=np.int64)
    if block.oversized:
        unread = np.ones(1, bool)
        policy = schema.policy(Reason.LINE_TOO_LONG)
        findings.add(
            Reason.LINE_TOO_LONG, policy, "", ids, found=str(block.oversized), expected=str(limit)
        )  # fmt: skip
    sound = is_clean(block.data, json=True)
    batch = Batch(partition.source, None, ids, rows, pl.DataFrame(), raw=raw, unread=unread, sound=sound)
    return batch, findings, len(block.data)
