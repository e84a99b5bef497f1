"""A .json document: a list of records, one record, records at a declared path, or really JSON Lines.

A list is cut by its structure in a stream (``elements.py``); a document whose structure does not hold is one
file-level error that names line and column, for then no record of it can be trusted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings
from pipeline.reasons import Reason
from pipeline.sources import jsonl
from pipeline.sources.blocks import Block, blocks
from pipeline.sources.document import located, ranges, single
from pipeline.sources.elements import element_end, split
from pipeline.sources.encoding import prove, text
from pipeline.sources.fault import FileNote
from pipeline.sources.packing import packed
from pipeline.sources.partition import Inspection, Partition, Reading
from pipeline.sources.pieces import pieces

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.schema.model import Schema
    from pipeline.sources.discover import Claim

LOOK_LINES = 100
"""Lines looked at to tell lines from a document."""


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove encoding and structure, and cut a large list into ranges of whole elements.

    Raises ``FileFault`` (``json_array_invalid``) for a document that does not parse.
    """
    encoding = prove(claim.path, claim.source, schema.read.encodings)
    start = encoding.mark if encoding.codec == "utf-8" else 0
    whole = Partition(claim.source, claim.schema_index, "json", start=start, encoding=encoding.codec)
    blank, body = _head(claim.path, whole)
    if not body:
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "JSON records"),))
    whole = replace(whole, start=start + blank)
    if schema.read.records_at is not None:
        whole = located(claim.path, whole, schema.read.records_at)
    elif _are_lines(body):
        return jsonl.inspect(claim, schema, fields)
    if schema.read.records_at is not None:
        body = next(text(claim.path, whole))
    if body[:1] != b"[":
        value = single(claim.path, whole, schema.read.limits.record_mb * 2**20)
        return jsonl.inspect(claim, schema, fields) if value is None else Inspection((value,))
    parts = ranges(claim.path, replace(whole, form="array"))
    if not parts:
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "an empty list", "JSON records"),))
    return Inspection(parts)


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of raw JSON values, one a record; rows count the elements from 1."""
    limit = schema.read.limits.record_mb * 2**20

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        del dropped  # every element is a record
        found = blocks(
            pieces(path, partition), split, line=partition.first_row, limit=limit, ends=element_end
        )
        return packed(
            jsonl.piece(_broken_at_commas(block), partition, schema, limit, Counter()) for block in found
        )

    return Reading(batches)


def _broken_at_commas(block: Block) -> Block:
    """The block with a line break in place of the comma behind each element."""
    data = np.frombuffer(bytearray(block.data), np.uint8)
    last = block.ends - 1
    data[last[data[last] == ord(",")]] = ord("\n")
    return replace(block, data=data.tobytes())


def _head(path: Path, whole: Partition) -> tuple[int, bytes]:
    """Bytes of white space in front, and the beginning of the text behind them."""
    blank = 0
    for data in text(path, whole):
        if body := data.lstrip():
            return blank + len(data) - len(body), body
        blank += len(data)
    return blank, b""


def _are_lines(body: bytes) -> bool:
    """Whether a text is JSON Lines: the first or second line is a whole JSON object, another line follows, and
    every line looked at begins like an object."""
    lines = [line for line in body.splitlines()[: LOOK_LINES + 1] if line.strip()]
    if len(lines) < 2 or not all(line.startswith(b"{") for line in lines[:-1]):
        return False
    return any(_is_object(line) for line in lines[:2])


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
