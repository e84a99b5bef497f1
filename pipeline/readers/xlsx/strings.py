"""Texts of a workbook: the table of shared strings, escapes, and texts taken by index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx.archive import CHUNK, WorkbookArchive
from pipeline.readers.xlsx.xml import Attributes, feed, local, parser
from pipeline.readers.xlsx.xml_tags import (
    PAD,
    Int64s,
    Mask,
    Unusual,
    character_data,
    find_tags,
    flat_bytes,
    replaced,
    slice_bytes,
    texts_at,
)

# ``_x000D_`` and the like (ECMA-376 part 1, 22.9.2.19, ST_Xstring): how workbooks write characters that XML
# cannot.


_RETURN, _LINE, _X = b"\r_x"
_ESCAPES = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")


def decode_escapes(texts: pa.StringArray) -> tuple[pa.StringArray, Mask]:
    """Texts with escapes decoded and line ends as plain line feeds, and which texts had any of these (bool [n]).

    A surrogate without its other half becomes U+FFFD, which a later check finds.
    """
    changed = np.zeros(len(texts), np.bool_)
    places = maybe_escaped(texts)
    if not len(places):
        return texts, changed
    before = texts.take(pa.array(places)).to_pylist()
    after = [decode_escape(text) for text in before]
    changed[places] = [old != new for old, new in zip(before, after, strict=True)]
    return replaced(texts, places, after), changed


def maybe_escaped(texts: pa.StringArray) -> Int64s:
    """Indices of the texts that have what may be an escape, or a carriage return."""
    data, offsets = flat_bytes(texts)
    marks = data == _RETURN
    marks[:-1] |= (data[:-1] == _LINE) & (data[1:] == _X)
    return texts_at(offsets, np.flatnonzero(marks))


def decode_escape(text: str) -> str:
    """One text with its escapes decoded. ``_x005F_`` is an escaped underscore: ``_x005F_x000D_`` is the plain text
    ``_x000D_``."""
    decoded = _ESCAPES.sub(_run, text)
    return decoded.replace("\r\n", "\n").replace("\r", "\n")


def _run(match: re.Match[str]) -> str:
    """A run of escapes: UTF-16 code units, so that two may make one character."""
    units = bytes.fromhex(match[0].replace("_x", "").replace("_", ""))
    return units.decode("utf-16-be", "replace")


# Texts with what must be known of each: taken by index, so that a text is copied once, into its column.


LONGEST_CELL = 32_767
"""Characters (UTF-16 code units) that one cell can hold: the application's own limit."""


@dataclass(frozen=True, slots=True)
class TextPool:
    """Texts by index.

    Attributes:
        texts: string [n]; null for a text that is not there.
        blank: bool [n], whether it is null or "".
        escaped: bool [n], whether escapes were decoded in it.
        full: bool [n], whether it is exactly as long as a cell can hold.
    """

    texts: pa.StringArray
    blank: Mask
    escaped: Mask
    full: Mask

    def __len__(self) -> int:
        return len(self.texts)


def text_pool(texts: pa.StringArray, escaped: Mask | None = None) -> TextPool:
    """A pool of texts; none had escapes unless ``escaped`` says so."""
    lengths = np.diff(flat_bytes(texts)[1])
    full = np.zeros(len(texts), np.bool_)
    long = np.flatnonzero(lengths >= LONGEST_CELL)
    if len(long):
        some = texts.take(pa.array(long)).to_pylist()
        full[long] = [len(text.encode("utf-16-le")) // 2 == LONGEST_CELL for text in some]
    return TextPool(texts, lengths == 0, np.zeros(len(texts), np.bool_) if escaped is None else escaped, full)


def join_pools(pools: list[TextPool]) -> TextPool:
    """All of them, one after the other."""
    if len(pools) == 1:
        return pools[0]
    return TextPool(
        pa.concat_arrays([p.texts for p in pools]),
        np.concatenate([p.blank for p in pools]),
        np.concatenate([p.escaped for p in pools]),
        np.concatenate([p.full for p in pools]),
    )


# The shared texts of a zipped workbook, read as far as they are asked for.


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


def is_declared_utf8(head: bytes) -> bool:
    """Whether a part that begins so is in UTF-8, as all but the rarest are."""
    return not head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00")) and _UTF8.search(head[:200]) is None


class SharedStrings:
    """Texts by their index, escapes decoded, read from the part as far as they are asked for."""

    def __init__(self, package: WorkbookArchive, part: str) -> None:
        self._chunks = _texts(package, part) if package.has(part) else iter(())
        self._pool = text_pool(pa.array([], pa.string()))

    def up_to(self, largest: int) -> TextPool:
        """The texts with indices up to ``largest`` at least, or all there are."""
        if largest >= len(self._pool):
            # At least twice as many, so that they are not all copied for every chunk.
            wanted, count, parts = max(largest + 1, 2 * len(self._pool)), len(self._pool), [self._pool]
            while count < wanted and (made := next(self._chunks, None)) is not None:
                parts.append(text_pool(*made))
                count += len(parts[-1])
            self._pool = join_pools(parts)
        return self._pool


Decoded = tuple[pa.StringArray, Mask]


def _texts(package: WorkbookArchive, part: str) -> Iterator[Decoded]:
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
                yield decode_escapes(rest)


def _usual(package: WorkbookArchive, part: str) -> Iterator[Decoded]:
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
                or not is_declared_utf8(data)
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
        return decode_escapes(texts)
    return texts, np.zeros(len(texts), np.bool_)


def _items(data: bytes) -> pa.StringArray:
    """Texts of items: of each, all its ``<t>`` together; phonetic runs are unusual."""
    found = find_tags(data)
    codes = _CODES[found.first, found.second]
    at, items = np.flatnonzero(codes == _TEXT), np.flatnonzero(codes == _ITEM)
    if (codes == _OTHER).any() or ((codes == _RUN).any() and b"<rPh" in data):
        raise Unusual("a comment or a phonetic run")
    filled = at[~found.closed[at]]
    if len(filled) and (filled[-1] + 1 == len(found.first) or (found.first[filled + 1] != ord("/")).any()):
        raise Unusual("an element inside a text")
    ends = found.starts[np.minimum(filled + 1, len(found.starts) - 1)]
    texts = character_data(data, slice_bytes(data, found.ends[filled] + 1, ends))
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
