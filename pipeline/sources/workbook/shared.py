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
from pipeline.sources.workbook.pool import Pool, joined, pool
from pipeline.sources.workbook.tokens import PAD, Unusual, slices, tags, text_of
from pipeline.sources.workbook.xml import Attributes, feed, local, parser

Mask = npt.NDArray[np.bool_]
_TEXT, _ITEM, _RUN, _OTHER = range(1, 5)
_CODES = np.zeros((256, 256), np.uint8)
_CODES[ord("t"), list(b" >/")] = _TEXT
_CODES[ord("s"), ord("i")] = _ITEM
_CODES[ord("r"), :] = _RUN
_CODES[list(b"!?"), :] = _OTHER
_OPEN = re.compile(rb"<(?:\w+:)?sst\b[^>]*?(/?)>")
_UTF8 = re.compile(rb"<\?xml[^>]*encoding\s*=\s*[\"'](?!utf-?8[\"'])", re.IGNORECASE)
FIRST_CHUNK = 2**18
"""Bytes of the first chunk: enough for a header."""
LONGEST = 64 * 2**20
"""Longest run of bytes without the end of an element."""


def utf8(head: bytes) -> bool:
    """Whether a part that begins so is in UTF-8, as all but the rarest are."""
    return not head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00")) and _UTF8.search(head[:200]) is None


class SharedTexts:
    """Texts by their index, escapes decoded, read from the part as far as they are asked for."""

    def __init__(self, package: Package, part: str) -> None:
        self._chunks = _texts(package, part) if package.has(part) else iter(())
        self._pool = pool(pa.array([], pa.string()))

    def up_to(self, largest: int) -> Pool:
        """The texts with indices up to ``largest`` at least, or all there are."""
        if largest >= len(self._pool):
            # At least twice as many, so that they are not all copied for every chunk.
            wanted, count, parts = max(largest + 1, 2 * len(self._pool)), len(self._pool), [self._pool]
            while count < wanted and (made := next(self._chunks, None)) is not None:
                parts.append(pool(*made))
                count += len(parts[-1])
            self._pool = joined(parts)
        return self._pool


Decoded = tuple[pa.StringArray, Mask]


def _texts(package: Package, part: str) -> Iterator[Decoded]:
    """Texts of the part, some at a time, and which had escapes.

    The exact parser takes over where the part is not written the usual way.
    """
    given = 0
    try:
        for texts, escaped in _usual(package, part):
            given += len(texts)
            yield texts, escaped
    except Unusual:
        for texts in _exact(part, package.chunks(part)):
            rest = texts.slice(min(given, len(texts)))
            given -= min(given, len(texts))
            if len(rest):
                yield decode(rest)


def _usual(package: Package, part: str) -> Iterator[Decoded]:
    rest, opened, closed = b"", False, False
    for chunk in package.chunks(part, CHUNK, first=FIRST_CHUNK):
        data = rest + chunk
        if closed:
            break
        if not opened:
            head = _OPEN.search(data)
            if (
                head is None
                or b":" in head[0].split(b" ", 1)[0]
                or b"<!" in data[: head.end()]
                or not utf8(data)
            ):
                raise Unusual("an unusual beginning")
            if head[1]:
                return
            data, opened = data[head.end() :], True
        end = data.find(b"</sst>", max(len(rest) - 10, 0) if rest else 0)
        closed = end >= 0
        cut = end if closed else data.rfind(b"</si>") + 5
        if cut < 5 and not closed:
            if len(data) > LONGEST:
                raise TaskFault("file_limit", "a text of more than 64 MB", "64 MB")
            rest = data
            continue
        rest = data[cut:]
        yield _chunk(b"".join((memoryview(data)[:cut], PAD)))
    if not closed:
        raise Unusual("an unusual end")


def _chunk(data: bytes) -> Decoded:
    """Texts of whole ``<si>`` elements with ``PAD`` after them."""
    try:
        texts = _items(data)
    except Unusual:
        if b"<!" in data or b"<?" in data:  # what looks like the end of an item may be none
            raise
        texts = pa.concat_arrays(list(_exact("shared texts", (b"<sst>", data[: -len(PAD)], b"</sst>"))))
    if b"_x" in data or b"\r" in data or b"&#" in data:
        return decode(texts)
    return texts, np.zeros(len(texts), np.bool_)


def _items(data: bytes) -> pa.StringArray:
    """Texts of items: of each, all its ``<t>`` together; phonetic runs are unusual."""
    found = tags(data)
    codes = _CODES[found.first, found.second]
    at, items = np.flatnonzero(codes == _TEXT), np.flatnonzero(codes == _ITEM)
    if (codes == _OTHER).any() or ((codes == _RUN).any() and b"<rPh" in data):
        raise Unusual("a comment or a phonetic run")
    filled = at[~found.closed[at]]
    if len(filled) and (filled[-1] + 1 == len(found.first) or (found.first[filled + 1] != ord("/")).any()):
        raise Unusual("an element inside a text")
    ends = found.starts[np.minimum(filled + 1, len(found.starts) - 1)]
    texts = text_of(data, slices(data, found.ends[filled] + 1, ends))
    if len(filled) == len(items) and (filled > items).all() and (filled[:-1] < items[1:]).all():
        return texts
    owners = np.searchsorted(items, filled) - 1
    if len(owners) and owners[0] < 0:
        raise Unusual("a text outside of an item")
    whole = [""] * len(items)
    for owner, text in zip(owners.tolist(), texts.to_pylist(), strict=True):
        whole[owner] += text
    return pa.array(whole, pa.string())


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
