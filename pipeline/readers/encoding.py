"""The encoding of a text file: by byte order mark, strict UTF-8, or as the schema declares; proven, never guessed.

All other modules see UTF-8: this one transcodes other encodings while it reads.
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

CHUNK_BYTES = 2**22
"""Bytes read at a time: small enough to stay in the processor's cache while they are processed, large enough that the
number of calls does not matter."""

SCAN_BYTES = 2**18
"""Bytes read at a time into one reused buffer, where they are only scanned."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """A proven encoding: the Python codec, and the number of bytes of the byte order mark before the text."""

    codec: str
    bom_bytes: int = 0


def bom_encoding(head: bytes) -> Encoding | None:
    """The encoding that a byte order mark declares; None without one."""
    for bom, codec in _BOMS:
        if head.startswith(bom):
            return Encoding(codec, len(bom))
    return None


def prove_encoding(path: Path, source: str, declared: Sequence[str] = ()) -> Encoding:
    """Decode the whole file by its byte order mark; without one as UTF-8, then by each declared encoding in turn.

    Raises ``FileFault`` (``file_encoding``) with the first byte that does not decode, or for an unknown codec.
    """
    with path.open("rb") as file:
        bom = bom_encoding(file.read(4))
    candidates = [bom] if bom else [Encoding("utf-8"), *map(Encoding, declared)]
    first: FileFault | None = None
    for encoding in candidates:
        try:
            if encoding.codec == "utf-8" and _is_all_utf8(path, encoding.bom_bytes):
                return encoding
            for _ in _decoded_chunks(path, encoding, encoding.bom_bytes, 0):
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


def utf8_chunks(path: Path, source: str, codec: str, start: int = 0, end: int = 0) -> Iterator[bytes]:
    """The text of a byte range as UTF-8, in chunks of about ``CHUNK_BYTES`` (``end`` 0: to the end of the file).

    UTF-8 passes through unchecked. Raises ``FileFault`` (``file_changed``) where another encoding, proven before, does
    not decode.
    """
    if codec == "utf-8":
        yield from _byte_chunks(path, start, end)
        return
    try:
        for part in _decoded_chunks(path, Encoding(codec), start, end):
            yield part.encode()
    except (_BadByte, UnicodeEncodeError) as bad:
        raise file_fault(Reason.FILE_CHANGED, source, str(bad)) from None


def partition_text(path: Path, partition: Partition) -> Iterator[bytes]:
    """The text of a partition as UTF-8. In a transcoded file ``start`` and ``end`` count bytes of the UTF-8 text, from
    after the byte order mark."""
    start, end = partition.start, partition.end
    if partition.encoding == "utf-8":
        yield from utf8_chunks(path, partition.source, "utf-8", start, end)
        return
    with path.open("rb") as file:
        bom = bom_encoding(file.read(4))
    at = 0
    for data in utf8_chunks(path, partition.source, partition.encoding, bom.bom_bytes if bom else 0):
        part = data[max(0, start - at) : end - at if end else None] if not end or end > at else b""
        at += len(data)
        if part:
            yield part


def _is_all_utf8(path: Path, start: int) -> bool:
    buffer, carried = bytearray(SCAN_BYTES), 0
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while read := file.readinto(view[carried:]):
            size = carried + read
            cut = size - unfinished_bytes(buffer[max(size - 4, 0) : size])
            if not is_utf8(view[:cut]):
                return False
            carried = size - cut
            view[:carried] = bytes(view[cut:size])
    return not carried


def _byte_chunks(path: Path, start: int, end: int) -> Iterator[bytes]:
    left = end - start if end else -1
    with path.open("rb") as file:  # buffered: a read gives all that is asked for
        file.seek(start)
        while left and (data := file.read(min(CHUNK_BYTES, left) if left > 0 else CHUNK_BYTES)):
            left -= len(data) if left > 0 else 0
            yield data


class _BadByte(Exception):
    """The byte where strict decoding stops."""

    def __init__(self, byte: int, offset: int, line: int) -> None:
        super().__init__(f"byte 0x{byte:02x} at offset {offset}, line {line}")


def _decoded_chunks(path: Path, encoding: Encoding, start: int, end: int) -> Iterator[str]:
    """The decoded text of the byte range. Raises ``_BadByte``."""
    decoder = codecs.getincrementaldecoder(encoding.codec)("strict")
    done = start
    for data in _byte_chunks(path, start, end):
        pending = decoder.getstate()[0]
        yield _decode(decoder, data, path, encoding, done - len(pending))
        done += len(data)
    if pending := decoder.getstate()[0]:
        yield _decode(decoder, b"", path, encoding, done - len(pending), final=True)


def _decode(
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
        if at > encoding.bom_bytes:
            line += sum(part.count("\n") for part in _decoded_chunks(path, encoding, encoding.bom_bytes, at))
        raise _BadByte((pending + data)[error.start], at, line) from None
