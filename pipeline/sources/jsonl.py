"""JSON Lines: one JSON value a line. The reader splits lines; what a line holds is judged by the cast stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, Int64s, Typed
from pipeline.cells.straight import flat
from pipeline.cells.text import is_sound
from pipeline.reasons import Reason
from pipeline.sources.blocks import Block, blocks
from pipeline.sources.encoding import Encoding, marked, prove
from pipeline.sources.fault import FileNote
from pipeline.sources.packing import packed
from pipeline.sources.partition import Inspection, Partition, Reading
from pipeline.sources.pieces import Pieces, joined, pieces
from pipeline.sources.plain import TRIES
from pipeline.sources.plain_lines import PlainLines
from pipeline.sources.quotes import Borders, breaks_of

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from pipeline.fields import Field
    from pipeline.schema.model import Schema
    from pipeline.sources.discover import Claim

Piece = tuple[Batch, Findings, int]
"""Records with ids from 0, what was found on them, and their size in bytes."""


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the encoding and cut a large file into ranges of whole lines.

    JSON is UTF-8: without a mark and without declared encodings, a line that is not UTF-8 is that line's own fault.
    """
    from pipeline.sources.ranges import ranges

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
    # Rows that become groups are put together from raw values.
    types = {} if schema.read.group_by else flat(fields)

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        def careful(text: Pieces, line: int) -> Iterator[Piece]:
            found = blocks(text, lines_of, line=line, limit=limit)
            return (piece(block, partition, schema, limit, dropped) for block in found)

        whole = pieces(path, partition)
        if not types:
            return packed(careful(whole, partition.first_row))
        return packed(_quickly(whole, PlainLines(types), partition, careful, limit))

    return Reading(batches)


def _quickly(
    text: Pieces,
    plain: PlainLines,
    partition: Partition,
    careful: Callable[[Pieces, int], Iterator[Piece]],
    limit: int,
) -> Iterator[Piece]:
    """Whole lines of each piece the quick way where they are plain, else carefully; all that is left carefully once
    some of them in a row were not plain, and where a line is too long."""
    line, failed = partition.first_row, 0
    for data, _ in text:
        cut = data.rfind(b"\n") + 1
        if not cut or failed == TRIES:
            text.again(len(data))
            break
        text.again(len(data) - cut)
        whole = data[:cut]  # no copy where it is all of it
        values = None if _holds_long(whole, limit) else plain(whole)
        if values is None:
            yield from careful(joined([whole]), line)
            line, failed = line + len(breaks_of(whole, True)), failed + 1
            continue
        rows = line + np.arange(values.height, dtype=np.int64)
        yield _typed(values, whole, rows, partition), Findings(), len(whole)
        line, failed = line + values.height, 0
    yield from careful(text, line)


def _holds_long(whole: bytes, limit: int) -> bool:
    """Whether some of the lines may be over the limit."""
    return len(whole) > limit and int(np.diff(breaks_of(whole, True), prepend=0).max()) > limit


def _typed(values: pl.DataFrame, data: bytes, rows: Int64s, partition: Partition) -> Batch:
    """A batch of lines that were all parsed; their bytes are cut up when they are asked for."""
    import polars as pl

    batch = Batch(
        partition.source, None, np.arange(len(rows), dtype=np.int64), rows, pl.DataFrame(), sound=True
    )
    again = cache(lambda: replace(batch, raw=lines(data, lines_of(data, True).ends)))
    return replace(batch, typed=Typed(values, again))


def lines(data: bytes, ends: Int64s, type_: pa.DataType | None = None) -> pa.Array:
    """Each line with its line break, by where it ends: binary [lines], or as another type of bytes."""
    import pyarrow as pa

    offsets = np.concatenate([[0], ends]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_ or pa.binary(), len(ends), buffers)


def lines_of(data: bytes, final: bool) -> Borders:
    """Every line break is a border."""
    breaks = breaks_of(data, final)
    if final and data and (not len(breaks) or breaks[-1] < len(data)):
        breaks = np.append(breaks, len(data))
    return Borders(breaks, breaks, np.arange(len(breaks)))


def piece(
    block: Block, partition: Partition, schema: Schema, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    """The records of a block, one a border, as a batch with ids from 0."""
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
    sound = is_sound(block.data, json=True)
    batch = Batch(partition.source, None, ids, rows, pl.DataFrame(), raw=raw, unread=unread, sound=sound)
    return batch, findings, len(block.data)
