"""A text in pieces, of which the end of each may be asked for again in front of the next.

A record that a piece cuts is read anew from the file, as a part of the next piece: putting its two parts together
would copy the whole of that piece.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from pipeline.sources.encoding import CHUNK, text
from pipeline.sources.partition import Partition

LOOK = 2**16
"""A piece of a file ends behind the last line feed in so many of its bytes: as a rule no record is cut then."""

Source = Generator[tuple[bytes, bool], int, None]
"""Yields a piece and whether it is the last one; is sent how many bytes of it come again, behind the last one too."""


class Pieces(Iterator[tuple[bytes, bool]]):
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


def pieces(path: Path, partition: Partition) -> Pieces:
    """The text of a partition. Raises ``FileFault`` as ``encoding.text`` does."""
    if partition.encoding != "utf-8":
        return joined(text(path, partition))
    return Pieces(_of_file(path, partition.start, partition.end))


def joined(chunks: Iterable[bytes]) -> Pieces:
    """The pieces of any stream of bytes."""
    return Pieces(_of_chunks(chunks))


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
