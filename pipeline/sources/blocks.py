"""Blocks of whole records: a text file is read in pieces, each cut behind its last whole record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pipeline.batch import Int64s
from pipeline.sources.quotes import Borders, Broken, breaks_of

KEEP_BYTES = 2**16
"""Of a record over the size limit, so much is kept for the quarantine."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records.

    Attributes:
        data: their bytes, UTF-8.
        line: physical line of the first one.
        offset: place of ``data`` in the range (in UTF-8 bytes).
        ends, breaks, broken, plain: see ``quotes.Borders``.
        oversized: length of the one record of this block, which is over the size limit; ``data`` is its head.
    """

    data: bytes
    line: int
    offset: int
    ends: Int64s
    breaks: Int64s
    broken: tuple[Broken, ...] = ()
    plain: bool = False
    oversized: int = 0


Scan = Callable[[bytes, bool], Borders]
"""Finds the records of a block; the flag says that nothing follows."""


def blocks(chunks: Iterable[bytes], scan: Scan, *, line: int, limit: int) -> Iterator[Block]:
    """Cut a stream of bytes into blocks of whole records.

    A record over ``limit`` bytes costs itself only: it comes as a block of its own, cut to its first bytes.
    """
    rest, head, offset, skipped = b"", b"", 0, 0
    for chunk in _ahead(chunks):
        data, final = (rest + chunk[0] if rest else chunk[0]), chunk[1]
        if skipped:
            data, skipped, line, offset, done = _skip(data, final, head, skipped, line, offset)
            if done is not None:
                yield done
            if skipped or not data:
                rest = b""
                continue
        borders = scan(data, final)
        cut = int(borders.ends[-1]) if len(borders.ends) else 0
        if cut:
            yield Block(data[:cut], line, offset, borders.ends, borders.breaks, borders.broken, borders.plain)
            line += len(borders.breaks)
            offset += cut
        rest = data[cut:]
        if len(rest) > limit and not final:
            head, skipped, rest = rest[:KEEP_BYTES], len(rest), b""


def _skip(
    data: bytes, final: bool, head: bytes, skipped: int, line: int, offset: int
) -> tuple[bytes, int, int, int, Block | None]:
    """Go on behind the line break that ends an oversized record."""
    import numpy as np

    breaks = breaks_of(data, final)
    if not len(breaks) and not final:
        return b"", skipped + len(data), line, offset, None
    cut = int(breaks[0]) if len(breaks) else len(data)
    length = skipped + cut
    ends = np.array([len(head)], np.int64)
    block = Block(head, line, offset, ends, ends, oversized=length)
    return data[cut:], 0, line + 1, offset + length, block


def _ahead(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each chunk, and whether it is the last one."""
    previous: bytes | None = None
    for chunk in chunks:
        if previous is not None:
            yield previous, False
        previous = chunk
    if previous is not None:
        yield previous, True
