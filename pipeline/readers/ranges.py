"""Ranges: a large text file is cut between records, so that workers read its parts in parallel.

The cuts depend only on the bytes and ``RANGE_BYTES``. The pass that finds them also counts lines, so that each range
knows the physical line where it starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.readers.blocks import FindRecords, blocks, text_pieces
from pipeline.readers.encoding import SCAN_BYTES
from pipeline.readers.formats import RANGE_BYTES, Partition

if TYPE_CHECKING:
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema


def cut_ranges(
    claim: Claim,
    schema: Schema,
    partition: Partition,
    scan: FindRecords,
    size: int = RANGE_BYTES,
    *,
    of_lines: bool = False,
) -> tuple[Partition, ...]:
    """The partition cut into ranges of at least ``size`` bytes, in order.

    It stays whole if it is small, transcoded (its record ends are not byte offsets of the file), or grouped (no cut may
    split a group). ``of_lines``: every line is a record, so that no scan is needed where all lines end with LF.
    """
    if (
        partition.encoding != "utf-8"
        or schema.read.group_by is not None
        or claim.bytes - partition.start < size + size // 2
    ):
        return (partition,)
    if of_lines and (lines := _cut_by_lines(claim, partition, size)):
        return lines
    limit = schema.read.limits.record_mb * 2**20
    parts: list[Partition] = []
    start, line = partition.start, partition.first_row
    for block in blocks(text_pieces(claim.path, partition), scan, line=partition.first_row, limit=limit):
        # Cut after the first record that ends beyond the size; a rest of less than half the size stays with its range.
        ends = (
            partition.start + block.offset + (np.array([block.oversized]) if block.oversized else block.ends)
        )
        while (cut := int(np.searchsorted(ends, start + size))) < len(ends):
            range_end = int(ends[cut])
            if claim.bytes - range_end < size // 2:
                break
            parts.append(replace(partition, order=len(parts), start=start, end=range_end, first_row=line))
            start = range_end
            line = block.line + int(np.searchsorted(block.breaks, block.ends[cut], "right"))
    parts.append(replace(partition, order=len(parts), start=start, first_row=line))
    return tuple(parts)


def _cut_by_lines(claim: Claim, partition: Partition, size: int) -> tuple[Partition, ...]:
    """Ranges of lines that end with LF; none if the file has another line break."""
    parts: list[Partition] = []
    start = at = partition.start
    first = line = partition.first_row
    buffer = bytearray(SCAN_BYTES)
    with claim.path.open("rb", buffering=0) as file:
        file.seek(at)
        while read := file.readinto(buffer):
            data = buffer if read == len(buffer) else buffer[:read]
            if b"\r" in data:
                return ()
            begin = 0
            while (least := start + size - at - 1) < len(data):
                cut = data.find(b"\n", max(begin, least)) + 1
                if not cut or claim.bytes - at - cut < size // 2:
                    break
                line += _count_line_feeds(data, begin, cut)
                parts.append(replace(partition, order=len(parts), start=start, end=at + cut, first_row=first))
                start, first, begin = at + cut, line, cut
            line += _count_line_feeds(data, begin, len(data))
            at += len(data)
    return (*parts, replace(partition, order=len(parts), start=start, first_row=first))


def _count_line_feeds(data: bytearray, begin: int, end: int) -> int:
    """Number of line feeds between two offsets; ``bytes.count`` takes four times as long where they are many."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8)[begin:end] == ord("\n")))
