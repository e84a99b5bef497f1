"""The shared texts of a zipped workbook, read as far as they are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.sources.sandboxed import TaskFault
from pipeline.sources.workbook.escapes import decode
from pipeline.sources.workbook.package import CHUNK, Package
from pipeline.sources.workbook.tokens import PAD, Unusual, slices, tags, text_of
from pipeline.sources.workbook.xml import Attributes, feed, local, parser

Mask = npt.NDArray[np.bool_]
_OPEN = re.compile(rb"<(?:\w+:)?sst\b[^>]*>")
_UTF8 = re.compile(rb"<\?xml[^>]*encoding\s*=\s*[\"'](?!utf-?8[\"'])", re.IGNORECASE)
FIRST_CHUNK = 2**18
"""Bytes of the first chunk: enough for a header."""
LONGEST = 64 * 2**20
"""Longest run of bytes without the end of an element."""


def utf8(head: bytes) -> bool:
    """Whether a part that begins so is in UTF-8, as all but the rarest are."""
    return not head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00")) and _UTF8.search(head[:200]) is None


class SharedTexts:
    """Texts by their index, escapes decoded.

    ``take`` gives the texts of indices, null for one that is not there, and which of them had escapes.
    """

    def __init__(self, package: Package) -> None:
        self._chunks = _texts(package) if package.has(package.shared) else iter(())
        self._texts: list[pa.StringArray] = []
        self._escaped: list[Mask] = []
        self._count = 0

    def take(self, indices: npt.NDArray[np.int64]) -> tuple[pa.StringArray, Mask]:
        """Texts of the indices (int64 [n]), read from the part as far as the largest of them."""
        self._read(int(indices.max(initial=-1)))
        inside = indices < self._count
        if not self._texts:
            return pa.nulls(len(indices), pa.string()), np.zeros(len(indices), np.bool_)
        texts = self._texts[0].take(pa.array(indices, mask=~inside))
        return texts, inside & self._escaped[0][np.where(inside, indices, 0)]

    def _read(self, largest: int) -> None:
        # Twice as many each time, so that what is there is not copied again for every chunk.
        while self._count <= largest and (made := next(self._chunks, None)) is not None:
            self._texts.append(made[0])
            self._escaped.append(made[1])
            self._count += len(made[0])
            largest = max(largest, 2 * sum(map(len, self._texts[:1])))
        if len(self._texts) > 1:
            self._texts = [pa.concat_arrays(self._texts)]
            self._escaped = [np.concatenate(self._escaped)]


Decoded = tuple[pa.StringArray, Mask]


def _texts(package: Package) -> Iterator[Decoded]:
    """Texts of the part, some at a time, and which had escapes.

    The exact parser takes over where the part is not written the usual way.
    """
    given = 0
    try:
        for texts, escaped in _usual(package):
            given += len(texts)
            yield texts, escaped
    except Unusual:
        for texts in _exact(package.shared, package.chunks(package.shared)):
            rest = texts.slice(min(given, len(texts)))
            given -= min(given, len(texts))
            if len(rest):
                yield decode(rest)


def _usual(package: Package) -> Iterator[Decoded]:
    rest = b""
    opened = False
    for chunk in package.chunks(package.shared, CHUNK, first=FIRST_CHUNK):
        data = rest + chunk
        if not opened:
            head = _OPEN.search(data)
            if head is None or b":" in head[0].split(b" ", 1)[0] or not utf8(data):
                raise Unusual("an unusual beginning")
            data, opened = data[head.end() :], True
        cut = data.rfind(b"</si>") + 5
        if cut < 5:
            if len(data) > LONGEST:
                raise TaskFault("file_limit", "a text of more than 64 MB", "64 MB")
            rest = data
            continue
        rest = data[cut:]
        whole = b"".join((memoryview(data)[:cut], PAD))
        if b"<!" in whole or b"<?" in whole:
            raise Unusual("a comment")
        yield _chunk(whole)


def _chunk(data: bytes) -> Decoded:
    """Texts of whole ``<si>`` elements with ``PAD`` after them."""
    try:
        texts = _joined(data)
    except Unusual:
        texts = pa.concat_arrays(list(_exact("shared texts", (b"<sst>", data[: -len(PAD)], b"</sst>"))))
    if b"_x" in data or b"\r" in data or b"&#" in data:
        return decode(texts)
    return texts, np.zeros(len(texts), np.bool_)


def _joined(data: bytes) -> pa.StringArray:
    """Texts of items: of each, all its ``<t>`` together; phonetic runs are unusual."""
    found = tags(data)
    name = (found.second == ord(" ")) | (found.second == ord(">")) | (found.second == ord("/"))
    at = np.flatnonzero((found.first == ord("t")) & name)
    items = np.flatnonzero((found.first == ord("s")) & (found.second == ord("i")))
    if b"<rPh" in data:
        raise Unusual("phonetic runs")
    filled = at[~found.closed[at]]
    if len(filled) and (filled[-1] + 1 == len(found.first) or (found.first[filled + 1] != ord("/")).any()):
        raise Unusual("an element inside a text")
    ends = found.starts[np.minimum(filled + 1, len(found.starts) - 1)]
    texts = text_of(found, slices(found, found.ends[filled] + 1, ends))
    if len(filled) == len(items) and (filled > items).all() and (filled[:-1] < items[1:]).all():
        return texts
    owners = np.searchsorted(items, filled) - 1
    if len(owners) and owners[0] < 0:
        raise Unusual("a text outside of an item")
    joined = [""] * len(items)
    for owner, text in zip(owners.tolist(), texts.to_pylist(), strict=True):
        joined[owner] += text
    return pa.array(joined, pa.string())


def _exact(part: str, chunks: Iterable[bytes]) -> Iterator[pa.StringArray]:
    """Texts of a whole part, or of a chunk between tags of its own, by the exact parser."""
    path: list[str] = []
    texts: list[str] = []
    parts: list[str] = []

    def start(name: str, _: Attributes) -> None:
        path.append(local(name))
        if path[-1] == "si":
            parts.clear()

    def end(_: str) -> None:
        if path.pop() == "si":
            texts.append("".join(parts))

    def text(data: str) -> None:
        if path and path[-1] == "t" and "rPh" not in path:
            parts.append(data)

    made = parser(start, end, text)
    for chunk in chunks:
        feed(part, made, (chunk,), final=False)
        yield pa.array(texts, pa.string())
        texts.clear()
    feed(part, made, ())
    yield pa.array(texts, pa.string())
