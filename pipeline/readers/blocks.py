"""Blocks of whole records from text files, and batches of a good size from blocks.

A text is read in pieces, and each piece is cut after its last whole record. The next piece reads the bytes of the cut
record again: joining the two parts of the record would copy that whole piece.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings, Int64s, merge
from pipeline.readers.csv_quotes import BrokenRecord, RecordEnds, line_breaks
from pipeline.readers.encoding import CHUNK_BYTES, partition_text
from pipeline.readers.formats import BATCH_BYTES, BATCH_ROWS, Partition

# Pieces of a text

LINE_SEARCH_BYTES = 2**16
"""A piece of a file ends after the last line feed in its last so many bytes, so that it rarely cuts a record."""

_PieceGenerator = Generator[tuple[bytes, bool], int, None]
"""Yields a piece and whether it is the last one; is sent the number of bytes at its end to repeat in the next piece."""


class TextPieces(Iterator[tuple[bytes, bool]]):
    """The pieces of a text: UTF-8 bytes, and whether the piece is the last one."""

    def __init__(self, source: _PieceGenerator) -> None:
        self._source, self._started, self._repeat = source, False, 0

    def __next__(self) -> tuple[bytes, bool]:
        if not self._started:
            self._started = True
            return next(self._source)
        size, self._repeat = self._repeat, 0
        return self._source.send(size)

    def repeat(self, size: int) -> None:
        """Repeat the last ``size`` bytes of this piece at the start of the next one."""
        self._repeat = size


def text_pieces(path: Path, partition: Partition) -> TextPieces:
    """The text of a partition. Raises ``FileFault`` as ``encoding.partition_text`` does."""
    if partition.encoding != "utf-8":
        return pieces_of(partition_text(path, partition))
    return TextPieces(_file_pieces(path, partition.start, partition.end))


def pieces_of(chunks: Iterable[bytes]) -> TextPieces:
    """The pieces of any stream of bytes."""
    return TextPieces(_chunk_pieces(chunks))


def _file_pieces(path: Path, start: int, end: int) -> _PieceGenerator:
    repeated = 0
    with path.open("rb") as file:  # buffered: a read gives all that is asked for
        end = end or os.fstat(file.fileno()).st_size
        while start < end or repeated:
            begin = start - repeated
            size = min(max(CHUNK_BYTES, 2 * repeated), end - begin)
            if begin + size < end:
                size -= _bytes_after_line(file, begin + size, min(LINE_SEARCH_BYTES, size - repeated))
            file.seek(begin)
            data = file.read(size)
            start = begin + len(data)
            if len(data) < size:  # the file has become shorter
                end = start
            repeated = yield data, start >= end


def _bytes_after_line(file: BinaryIO, end: int, most: int) -> int:
    """Number of bytes after the last line feed of the ``most`` bytes before ``end``; 0 without a line feed."""
    file.seek(end - most)
    tail = file.read(most)
    return (len(tail) - tail.rfind(b"\n") - 1) % (len(tail) or 1)


def _chunk_pieces(chunks: Iterable[bytes]) -> _PieceGenerator:
    rest = b""
    for chunk, final in _with_last_flag(chunks):
        data = rest + chunk if rest else chunk
        repeated = yield data, final
        rest = data[len(data) - repeated :]
    while rest:
        repeated = yield rest, True
        rest = rest[len(rest) - repeated :]


def _with_last_flag(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last one."""
    previous: bytes | None = None
    for chunk in chunks:
        if previous is not None:
            yield previous, False
        previous = chunk
    if previous is not None:
        yield previous, True


# Blocks of whole records

OVERSIZED_HEAD_BYTES = 2**16
"""Bytes of a record over the size limit that the quarantine keeps."""
LINE_BREAK_BYTES = 2
"""Longest line break: an unfinished record may end with so many bytes that do not count for its size."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records.

    Attributes:
        data: their bytes, UTF-8.
        line: physical line of the first record.
        offset: offset of ``data`` in the partition, in UTF-8 bytes.
        ends, breaks, lines, broken: see ``csv_quotes.RecordEnds``.
        oversized: bytes of the only record of this block if it is over the size limit; ``data`` is then its beginning.
    """

    data: bytes
    line: int
    offset: int
    ends: Int64s
    breaks: Int64s
    lines: Int64s
    broken: tuple[BrokenRecord, ...] = ()
    oversized: int = 0


FindRecords = Callable[[bytes, bool], RecordEnds]
"""Finds the records of a block; the flag says that the block ends the text."""

FindEnd = Callable[[bytes, bool], int]
"""Finds the offset after the current record in the next piece of a text; -1 if the record goes on."""


def find_line_end(seen: bytes) -> FindEnd:
    """Finds the end of a record that is a line; ``seen`` holds its bytes so far."""

    def find_end(data: bytes, final: bool) -> int:
        breaks = line_breaks(data, final)
        return int(breaks[0]) if len(breaks) else len(data) if final else -1

    return find_end


def blocks(
    pieces: TextPieces,
    scan: FindRecords,
    *,
    line: int,
    limit: int,
    end_finder: Callable[[bytes], FindEnd] = find_line_end,
) -> Iterator[Block]:
    """Cut a text into blocks of whole records.

    A record over ``limit`` bytes (without its line break) costs only itself: it becomes a block of its own, cut to its
    first bytes.

    Args:
        end_finder: takes the bytes of such a record so far, and returns the function that finds its end.
    """
    head, offset, skipped = b"", 0, 0
    find_end = find_line_end(b"")
    for data, final in pieces:
        if skipped:
            cut = find_end(data, final)
            if cut < 0:
                skipped += len(data)
                continue
            skipped += cut
            yield _oversized_block(head, line, offset, skipped)
            data, line, offset, skipped = data[cut:], line + 1, offset + skipped, 0
            if not data:
                continue
        records = scan(data, final)
        cut = int(records.ends[-1]) if len(records.ends) else 0
        if cut:
            whole = data[:cut]  # bytes are not copied if this is all of them
            block = Block(whole, line, offset, records.ends, records.breaks, records.lines, records.broken)
            yield from _split_oversized(block, limit) if cut > limit else (block,)
            line += len(records.breaks)
            offset += cut
        if len(data) - cut > limit + LINE_BREAK_BYTES and not final:
            rest = data[cut:]
            head, skipped, find_end = rest[:OVERSIZED_HEAD_BYTES], len(rest), end_finder(rest)
        elif not final:
            pieces.repeat(len(data) - cut)


def _split_oversized(block: Block, limit: int) -> Iterator[Block]:
    """The block with each record over the limit in a block of its own."""
    starts = np.concatenate([[0], block.ends[:-1]])
    over = [
        index
        for index in np.flatnonzero(block.ends - starts > limit).tolist()
        if len(block.data[starts[index] : block.ends[index]].rstrip(b"\r\n")) > limit
    ]
    if not over:
        yield block
        return
    at = 0
    for index in over:
        if index > at:
            yield _slice_block(block, at, index)
        one = _slice_block(block, index, index + 1)
        yield _oversized_block(one.data[:OVERSIZED_HEAD_BYTES], one.line, one.offset, len(one.data))
        at = index + 1
    if at < len(block.ends):
        yield _slice_block(block, at, len(block.ends))


def _slice_block(block: Block, first: int, past: int) -> Block:
    """Consecutive records of a block, as a block."""
    start = int(block.ends[first - 1]) if first else 0
    end = int(block.ends[past - 1])
    before, behind = np.searchsorted(block.breaks, [start, end], "right").tolist()
    broken = tuple(replace(b, index=b.index - first) for b in block.broken if first <= b.index < past)
    return Block(
        block.data[start:end],
        block.line + before,
        block.offset + start,
        block.ends[first:past] - start,
        block.breaks[before:behind] - start,
        block.lines[first:past] - before,
        broken,
    )


def _oversized_block(head: bytes, line: int, offset: int, size: int) -> Block:
    """The block of a record over the limit; ``head`` holds its first bytes."""
    end = np.array([len(head)], np.int64)
    return Block(head, line, offset, end, end, np.zeros(1, np.int64), oversized=size)


# Batches of a good size


def repack(pieces: Iterable[tuple[Batch, Findings, int]]) -> Iterator[tuple[Batch, Findings]]:
    """Join small batches (batch, findings, bytes) until a batch holds ``BATCH_ROWS`` records or ``BATCH_BYTES`` bytes.

    Ids count from 0 in each piece, and over the whole partition in the batches.
    """
    batches: list[Batch] = []
    findings: list[Findings] = []
    rows = size = first = 0
    for batch, found, length in pieces:
        if not len(batch):
            continue
        batches.append(replace(batch, ids=batch.ids + (first + rows)))
        findings.append(_shift_ids(found, first + rows))
        rows, size = rows + len(batch), size + length
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield concatenate(batches), merge(findings)
            first, rows, size, batches, findings = first + rows, 0, 0, [], []
    if batches:
        yield concatenate(batches), merge(findings)


def _shift_ids(findings: Findings, first: int) -> Findings:
    return Findings([replace(item, ids=item.ids + first) for item in findings.items])


def concatenate(batches: list[Batch]) -> Batch:
    """Join batches of one partition; all of them hold ``cells``, or all of them hold ``raw``."""
    if len(batches) == 1:
        return batches[0]
    ids = np.concatenate([b.ids for b in batches])
    rows = np.concatenate([b.rows for b in batches])
    clean = all(b.clean for b in batches)
    cells = [b.cells for b in batches if b.cells is not None]
    return replace(
        batches[0],
        ids=ids,
        rows=rows,
        cells=pl.concat(cells) if cells else None,
        raw=_concat_raw(batches),
        unread=_concat_unread(batches),
        clean=clean,
    )


def _concat_raw(batches: list[Batch]) -> pa.Array | None:
    if all(b.raw is None for b in batches):
        return None
    return pa.concat_arrays([pa.nulls(len(b), pa.binary()) if b.raw is None else b.raw for b in batches])


def _concat_unread(batches: list[Batch]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    if all(b.unread is None for b in batches):
        return None
    return np.concatenate([np.zeros(len(b), bool) if b.unread is None else b.unread for b in batches])
