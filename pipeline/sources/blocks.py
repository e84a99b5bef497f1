"""Blocks of whole records: a text file is read in pieces, each cut behind its last whole record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pipeline.batch import Int64s
from pipeline.sources.pieces import Pieces
from pipeline.sources.quotes import Borders, Broken, breaks_of

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


Scan = Callable[[bytes, bool], Borders]
"""Finds the records of a block; the flag says that nothing follows."""

End = Callable[[bytes, bool], int]
"""Finds, in the next piece of a text, the offset behind the record that has begun; -1 where it goes on."""


def line_end(begun: bytes) -> End:
    """The end of a record that is a line."""

    def behind(data: bytes, final: bool) -> int:
        breaks = breaks_of(data, final)
        return int(breaks[0]) if len(breaks) else len(data) if final else -1

    return behind


def blocks(
    text: Pieces,
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
