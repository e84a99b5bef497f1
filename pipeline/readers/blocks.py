"""Blocks of whole records: a text file in pieces, each cut behind its last whole record, and batches of a good
size.

A record that a piece cuts is read anew from the file, as a part of the next piece: putting its two parts together
would copy the whole of that piece.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from pipeline.batch import Batch, Findings, Int64s, merge
from pipeline.readers.csv_quotes import Broken, RecordEnds, line_breaks
from pipeline.readers.encoding import CHUNK, text
from pipeline.readers.formats import BATCH_BYTES, BATCH_ROWS, Partition

if TYPE_CHECKING:
    import pyarrow as pa


# A text in pieces, of which the end of each may be asked for again in front of the next.


LOOK = 2**16
"""A piece of a file ends behind the last line feed in so many of its bytes: as a rule no record is cut then."""

Source = Generator[tuple[bytes, bool], int, None]
"""Yields a piece and whether it is the last one; is sent how many bytes of it come again, behind the last one too."""


class TextPieces(Iterator[tuple[bytes, bool]]):
    """The pieces of a text, as UTF-8: bytes, and whether nothing follows."""

    def __init__(self, source: Source) -> None:
        self._source, self._begun, self._again = source, False, 0

    def __next__(self) -> tuple[bytes, bool]:
        if not self._begun:
            self._begun = True
            return next(self._source)
        size, self._again = self._again, 0
        return self._source.send(size)

    def again(self, size: int) -> None:
        """Have the last ``size`` bytes of the last piece in front of the next one."""
        self._again = size


def text_pieces(path: Path, partition: Partition) -> TextPieces:
    """The text of a partition. Raises ``FileFault`` as ``encoding.text`` does."""
    if partition.encoding != "utf-8":
        return pieces_of(text(path, partition))
    return TextPieces(_of_file(path, partition.start, partition.end))


def pieces_of(chunks: Iterable[bytes]) -> TextPieces:
    """The pieces of any stream of bytes."""
    return TextPieces(_of_chunks(chunks))


def _of_file(path: Path, start: int, end: int) -> Source:
    again = 0
    with path.open("rb") as file:  # buffered: a read gives all that is asked for
        end = end or os.fstat(file.fileno()).st_size
        while start < end or again:
            begin = start - again
            wanted = min(max(CHUNK, 2 * again), end - begin)
            if begin + wanted < end:
                wanted -= _behind_line(file, begin + wanted, min(LOOK, wanted - again))
            file.seek(begin)
            data = file.read(wanted)
            start = begin + len(data)
            if len(data) < wanted:  # the file has become shorter
                end = start
            again = yield data, start >= end


def _behind_line(file: BinaryIO, end: int, look: int) -> int:
    """How many bytes stand behind the last line feed of the ``look`` bytes before an offset; 0 where there is none."""
    file.seek(end - look)
    tail = file.read(look)
    return (len(tail) - tail.rfind(b"\n") - 1) % (len(tail) or 1)


def _of_chunks(chunks: Iterable[bytes]) -> Source:
    rest = b""
    for chunk, final in _ahead(chunks):
        data = rest + chunk if rest else chunk
        again = yield data, final
        rest = data[len(data) - again :]
    while rest:
        again = yield rest, True
        rest = rest[len(rest) - again :]


def _ahead(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last one."""
    previous: bytes | None = None
    for chunk in chunks:
        if previous is not None:
            yield previous, False
        previous = chunk
    if previous is not None:
        yield previous, True


# Blocks of whole records: a text file is read in pieces, each cut behind its last whole record.


KEEP_BYTES = 2**16
"""Of a record over the size limit, so much is kept for the quarantine."""
LINE_BREAK = 2
"""Longest line break: a record that is not whole yet may end with so many bytes that are none of it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records.

    Attributes:
        data: their bytes, UTF-8.
        line: physical line of the first one.
        offset: place of ``data`` in the range (in UTF-8 bytes).
        ends, breaks, lines, broken: see ``quotes.Borders``.
        oversized: length of the one record of this block, which is over the size limit; ``data`` is its head.
    """

    data: bytes
    line: int
    offset: int
    ends: Int64s
    breaks: Int64s
    lines: Int64s
    broken: tuple[Broken, ...] = ()
    oversized: int = 0


Scan = Callable[[bytes, bool], RecordEnds]
"""Finds the records of a block; the flag says that nothing follows."""

End = Callable[[bytes, bool], int]
"""Finds, in the next piece of a text, the offset behind the record that has begun; -1 where it goes on."""


def line_end(begun: bytes) -> End:
    """The end of a record that is a line."""

    def behind(data: bytes, final: bool) -> int:
        breaks = line_breaks(data, final)
        return int(breaks[0]) if len(breaks) else len(data) if final else -1

    return behind


def blocks(
    text: TextPieces,
    scan: Scan,
    *,
    line: int,
    limit: int,
    ends: Callable[[bytes], End] = line_end,
) -> Iterator[Block]:
    """Cut a text into blocks of whole records.

    A record over ``limit`` bytes, its line break not counted, costs itself only: it comes as a block of its own, cut
    to its first bytes.

    Args:
        ends: called with what has been seen of such a record, says how its end is found.
    """
    head, offset, skipped = b"", 0, 0
    end = line_end(b"")
    for data, final in text:
        if skipped:
            cut = end(data, final)
            if cut < 0:
                skipped += len(data)
                continue
            skipped += cut
            yield _oversized(head, line, offset, skipped)
            data, line, offset, skipped = data[cut:], line + 1, offset + skipped, 0
            if not data:
                continue
        borders = scan(data, final)
        cut = int(borders.ends[-1]) if len(borders.ends) else 0
        if cut:
            whole = data[:cut]  # no copy where it is all of it
            block = Block(whole, line, offset, borders.ends, borders.breaks, borders.lines, borders.broken)
            yield from _within(block, limit) if cut > limit else (block,)
            line += len(borders.breaks)
            offset += cut
        if len(data) - cut > limit + LINE_BREAK and not final:
            rest = data[cut:]
            head, skipped, end = rest[:KEEP_BYTES], len(rest), ends(rest)
        elif not final:
            text.again(len(data) - cut)


def _within(block: Block, limit: int) -> Iterator[Block]:
    """The block with each record over the limit in a block of its own."""
    import numpy as np

    starts = np.concatenate([[0], block.ends[:-1]])
    over = [
        place
        for place in np.flatnonzero(block.ends - starts > limit).tolist()
        if len(block.data[starts[place] : block.ends[place]].rstrip(b"\r\n")) > limit
    ]
    if not over:
        yield block
        return
    at = 0
    for place in over:
        if place > at:
            yield _part(block, at, place)
        one = _part(block, place, place + 1)
        yield _oversized(one.data[:KEEP_BYTES], one.line, one.offset, len(one.data))
        at = place + 1
    if at < len(block.ends):
        yield _part(block, at, len(block.ends))


def _part(block: Block, first: int, past: int) -> Block:
    """Some consecutive records of a block, as a block."""
    import numpy as np

    start = int(block.ends[first - 1]) if first else 0
    end = int(block.ends[past - 1])
    before, behind = np.searchsorted(block.breaks, [start, end], "right").tolist()
    broken = tuple(replace(b, index=b.index - first) for b in block.broken if first <= b.index < past)
    return Block(
        block.data[start:end], block.line + before, block.offset + start, block.ends[first:past] - start,
        block.breaks[before:behind] - start, block.lines[first:past] - before, broken,
    )  # fmt: skip


def _oversized(head: bytes, line: int, offset: int, size: int) -> Block:
    """A record over the limit, of which ``head`` is kept."""
    import numpy as np

    end = np.array([len(head)], np.int64)
    return Block(head, line, offset, end, end, np.zeros(1, np.int64), oversized=size)


# Batches of a good size from many small pieces.


def repack(pieces: Iterable[tuple[Batch, Findings, int]]) -> Iterator[tuple[Batch, Findings]]:
    """Join pieces (batch, findings, bytes) until a batch holds ``BATCH_ROWS`` records or ``BATCH_BYTES`` bytes.

    The ids of the pieces count from 0 within each piece; those of the batches over all of them.
    """
    batches: list[Batch] = []
    findings: list[Findings] = []
    rows = size = first = 0
    for batch, found, length in pieces:
        if not len(batch):
            continue
        batches.append(replace(batch, ids=batch.ids + (first + rows)))
        findings.append(_shifted(found, first + rows))
        rows, size = rows + len(batch), size + length
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield concatenate(batches), merge(findings)
            first, rows, size, batches, findings = first + rows, 0, 0, [], []
    if batches:
        yield concatenate(batches), merge(findings)


def _shifted(findings: Findings, first: int) -> Findings:
    return Findings([replace(item, ids=item.ids + first) for item in findings.items])


def concatenate(batches: list[Batch]) -> Batch:
    """Batches of one partition as one; all of them hold ``cells``, or all of them hold ``raw``."""
    import polars as pl

    if len(batches) == 1:
        return batches[0]
    ids = np.concatenate([b.ids for b in batches])
    rows = np.concatenate([b.rows for b in batches])
    sound = all(b.sound for b in batches)
    cells = [b.cells for b in batches if b.cells is not None]
    return replace(
        batches[0],
        ids=ids,
        rows=rows,
        cells=pl.concat(cells) if cells else None,
        raw=_raw(batches),
        unread=_unread(batches),
        sound=sound,
    )


def _raw(batches: list[Batch]) -> pa.Array | None:
    import pyarrow as pa

    if all(b.raw is None for b in batches):
        return None
    return pa.concat_arrays([pa.nulls(len(b), pa.binary()) if b.raw is None else b.raw for b in batches])


def _unread(batches: list[Batch]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    if all(b.unread is None for b in batches):
        return None
    return np.concatenate([np.zeros(len(b), bool) if b.unread is None else b.unread for b in batches])
