"""The encoding of a text file: a byte order mark, strict UTF-8, or what the schema declares; proven, never
guessed.

Past this module every text is UTF-8: other encodings are transcoded while they are read.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.findings import FileFault, file_fault
from pipeline.readers.formats import Partition
from pipeline.reasons import Reason
from pipeline.values.text_checks import is_utf8, unfinished_bytes

CHUNK = 2**22
"""Bytes read at a time: small enough to stay in the processor's cache through all that is done to them, large enough
for the calls made on each not to matter."""

LOOKED_AT = 2**18
"""Bytes read at a time, into one buffer, where they are looked at and no more."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """A proven encoding: the Python codec, and the length of the byte order mark before the text."""

    codec: str
    mark: int = 0


def marked(head: bytes) -> Encoding | None:
    """The encoding a byte order mark declares, if there is one."""
    for mark, codec in _MARKS:
        if head.startswith(mark):
            return Encoding(codec, len(mark))
    return None


def prove(path: Path, source: str, declared: Sequence[str] = ()) -> Encoding:
    """Decode the whole file by its mark, else as UTF-8, else by each declared encoding in turn.

    Raises ``FileFault`` (``file_encoding``) that names the first byte that does not decode.
    """
    with path.open("rb") as file:
        mark = marked(file.read(4))
    candidates = [mark] if mark else [Encoding("utf-8"), *map(Encoding, declared)]
    first: FileFault | None = None
    for encoding in candidates:
        try:
            if encoding.codec == "utf-8" and _all_utf8(path, encoding.mark):
                return encoding
            for _ in _texts(path, encoding, encoding.mark, 0):
                pass
        except _BadByte as bad:
            names = ", ".join(c.codec.upper() for c in candidates)
            first = first or file_fault(Reason.FILE_ENCODING, source, str(bad), names)
        except LookupError:
            raise file_fault(
                Reason.FILE_ENCODING, source, f"the unknown codec {encoding.codec!r}", "a codec"
            ) from None
        else:
            return encoding
    assert first is not None  # noqa: S101 - there is at least one candidate
    raise first


def chunks(path: Path, source: str, codec: str, start: int = 0, end: int = 0) -> Iterator[bytes]:
    """The text of the byte range as UTF-8, in pieces of about ``CHUNK`` bytes (``end`` 0: to the end of the file).

    UTF-8 is passed on as it stands. Raises ``FileFault`` (``file_changed``) where another encoding
    no longer decodes as it was proven to.
    """
    if codec == "utf-8":
        yield from _bytes(path, start, end)
        return
    try:
        for part in _texts(path, Encoding(codec), start, end):
            yield part.encode()
    except (_BadByte, UnicodeEncodeError) as bad:
        raise file_fault(Reason.FILE_CHANGED, source, str(bad)) from None


def text(path: Path, partition: Partition) -> Iterator[bytes]:
    """The range of a partition as UTF-8. In a transcoded file ``start`` and ``end`` count the bytes of its UTF-8
    form behind the mark."""
    start, end = partition.start, partition.end
    if partition.encoding == "utf-8":
        yield from chunks(path, partition.source, "utf-8", start, end)
        return
    with path.open("rb") as file:
        mark = marked(file.read(4))
    at = 0
    for data in chunks(path, partition.source, partition.encoding, mark.mark if mark else 0):
        part = data[max(0, start - at) : end - at if end else None] if not end or end > at else b""
        at += len(data)
        if part:
            yield part


def _all_utf8(path: Path, start: int) -> bool:
    buffer, kept = bytearray(LOOKED_AT), 0
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while read := file.readinto(view[kept:]):
            size = kept + read
            cut = size - unfinished_bytes(buffer[max(size - 4, 0) : size])
            if not is_utf8(view[:cut]):
                return False
            kept = size - cut
            view[:kept] = bytes(view[cut:size])
    return not kept


def _bytes(path: Path, start: int, end: int) -> Iterator[bytes]:
    left = end - start if end else -1
    with path.open("rb") as file:  # buffered: a read gives all that is asked for
        file.seek(start)
        while left and (data := file.read(min(CHUNK, left) if left > 0 else CHUNK)):
            left -= len(data) if left > 0 else 0
            yield data


class _BadByte(Exception):
    """Where strict decoding stopped."""

    def __init__(self, byte: int, offset: int, line: int) -> None:
        super().__init__(f"byte 0x{byte:02x} at offset {offset}, line {line}")


def _texts(path: Path, encoding: Encoding, start: int, end: int) -> Iterator[str]:
    """The decoded text of the byte range. Raises ``_BadByte``."""
    decoder = codecs.getincrementaldecoder(encoding.codec)("strict")
    done = start
    for data in _bytes(path, start, end):
        pending = decoder.getstate()[0]
        yield _decoded(decoder, data, path, encoding, done - len(pending))
        done += len(data)
    if pending := decoder.getstate()[0]:
        yield _decoded(decoder, b"", path, encoding, done - len(pending), final=True)


def _decoded(
    decoder: codecs.IncrementalDecoder,
    data: bytes,
    path: Path,
    encoding: Encoding,
    offset: int,
    *,
    final: bool = False,
) -> str:
    pending = decoder.getstate()[0]
    try:
        return decoder.decode(data, final)
    except UnicodeDecodeError as error:
        at = offset + error.start
        line = 1
        if at > encoding.mark:
            line += sum(text.count("\n") for text in _texts(path, encoding, encoding.mark, at))
        raise _BadByte((pending + data)[error.start], at, line) from None
