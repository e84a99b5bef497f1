"""A text in pieces, of which the end of each may be asked for again in front of the next.

A record that a piece cuts is read anew from the file, as a part of the next piece: putting its two parts together
would copy the whole of that piece.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from pipeline.sources.encoding import CHUNK, text
from pipeline.sources.partition import Partition

Bytes = bytes | bytearray
Source = Generator[tuple[Bytes, bool], int, None]
"""Yields a piece and whether it is the last one; is sent how many bytes of it come again, behind the last one too."""


class Pieces(Iterator[tuple[Bytes, bool]]):
    """The pieces of a text, as UTF-8: bytes, which may be written over when the next piece is asked for, and whether
    nothing follows."""

    def __init__(self, source: Source) -> None:
        self._source, self._begun, self._again = source, False, 0

    def __next__(self) -> tuple[Bytes, bool]:
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
    again, buffer = 0, bytearray()  # one for all pieces: fresh memory costs as much as reading into it
    with path.open("rb") as file:  # buffered: a read gives all that is asked for
        end = end or os.fstat(file.fileno()).st_size
        while start < end or again:
            file.seek(start - again)
            wanted = min(max(CHUNK, 2 * again), end - start + again)
            if len(buffer) < wanted:
                buffer = bytearray(wanted)
            read = file.readinto(memoryview(buffer)[:wanted])
            start += read - again
            if read < wanted:  # the file has become shorter
                end = start
            again = yield buffer if read == len(buffer) else buffer[:read], start >= end


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
