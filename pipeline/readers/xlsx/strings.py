"""Strings of a workbook: escapes, tables of strings, and the shared strings of a zipped workbook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx.archive import CHUNK_BYTES, WorkbookArchive
from pipeline.readers.xlsx.xml import Attributes, feed, local_name, make_parser
from pipeline.readers.xlsx.xml_tags import (
    PADDING,
    Int64s,
    Mask,
    Unusual,
    character_data,
    find_tags,
    flat_bytes,
    replace_texts,
    slice_bytes,
    texts_at,
)

# Escapes such as ``_x000D_`` for characters that XML cannot hold (ECMA-376 part 1, 22.9.2.19, ST_Xstring)

_CARRIAGE_RETURN, _UNDERSCORE, _X = b"\r_x"
_ESCAPES = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")


def decode_escapes(texts: pa.StringArray) -> tuple[pa.StringArray, Mask]:
    """Texts with escapes decoded and line ends as line feeds, and which texts this changed (bool [n]).

    A lone surrogate becomes U+FFFD, which a later check finds.
    """
    changed = np.zeros(len(texts), np.bool_)
    places = maybe_escaped(texts)
    if not len(places):
        return texts, changed
    before = texts.take(pa.array(places)).to_pylist()
    after = [decode_escape(text) for text in before]
    changed[places] = [old != new for old, new in zip(before, after, strict=True)]
    return replace_texts(texts, places, after), changed


def maybe_escaped(texts: pa.StringArray) -> Int64s:
    """Indices of the texts that may have an escape, or have a carriage return: int64."""
    data, offsets = flat_bytes(texts)
    marks = data == _CARRIAGE_RETURN
    marks[:-1] |= (data[:-1] == _UNDERSCORE) & (data[1:] == _X)
    return texts_at(offsets, np.flatnonzero(marks))


def decode_escape(text: str) -> str:
    """Decode the escapes of one text. ``_x005F_`` is an escaped underscore: ``_x005F_x000D_`` gives ``_x000D_``."""
    decoded = _ESCAPES.sub(_decode_run, text)
    return decoded.replace("\r\n", "\n").replace("\r", "\n")


def _decode_run(match: re.Match[str]) -> str:
    """Decode a run of escapes. They are UTF-16 code units, so that two may form one character."""
    units = bytes.fromhex(match[0].replace("_x", "").replace("_", ""))
    return units.decode("utf-16-be", "replace")


# Tables of strings, from which cells take their texts by index, so that each text is copied only once

MOST_CELL_CHARACTERS = 32_767
"""Most characters (UTF-16 code units) that Excel allows in a cell."""


@dataclass(frozen=True, slots=True)
class StringTable:
    """Strings by index.

    Attributes:
        texts: string [n]; null for an absent text.
        blank: bool [n], whether it is null or "".
        escaped: bool [n], whether it had escapes.
        full: bool [n], whether it is exactly as long as a cell can hold.
    """

    texts: pa.StringArray
    blank: Mask
    escaped: Mask
    full: Mask

    def __len__(self) -> int:
        return len(self.texts)


def string_table(texts: pa.StringArray, escaped: Mask | None = None) -> StringTable:
    """A table of texts; none had escapes unless ``escaped`` (bool [n]) says so."""
    lengths = np.diff(flat_bytes(texts)[1])
    full = np.zeros(len(texts), np.bool_)
    long = np.flatnonzero(lengths >= MOST_CELL_CHARACTERS)
    if len(long):
        some = texts.take(pa.array(long)).to_pylist()
        full[long] = [len(text.encode("utf-16-le")) // 2 == MOST_CELL_CHARACTERS for text in some]
    return StringTable(
        texts, lengths == 0, np.zeros(len(texts), np.bool_) if escaped is None else escaped, full
    )


def join_tables(tables: list[StringTable]) -> StringTable:
    """The tables as one, in their order."""
    if len(tables) == 1:
        return tables[0]
    return StringTable(
        pa.concat_arrays([p.texts for p in tables]),
        np.concatenate([p.blank for p in tables]),
        np.concatenate([p.escaped for p in tables]),
        np.concatenate([p.full for p in tables]),
    )


# Shared strings

_TEXT, _ITEM, _RUN, _OTHER = range(1, 5)
_CODES = np.zeros((256, 256), np.uint8)
_CODES[ord("t"), list(b" >/")] = _TEXT
_CODES[ord("s"), ord("i")] = _ITEM
_CODES[ord("r"), :] = _RUN
_CODES[list(b"!?"), :] = _OTHER
_OPEN = re.compile(rb"<(?:\w+:)?sst\b[^>]*?(/?)>")
_OTHER_ENCODING = re.compile(rb"<\?xml[^>]*encoding\s*=\s*[\"'](?!utf-?8[\"'])", re.IGNORECASE)
FIRST_CHUNK_BYTES = 2**18
"""Bytes of the first chunk: enough for a header."""
MOST_ELEMENT_BYTES = 64 * 2**20
"""Most bytes without the end of an element."""


def is_declared_utf8(head: bytes) -> bool:
    """Whether a part with this beginning is declared as UTF-8, as almost all are."""
    return (
        not head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00"))
        and _OTHER_ENCODING.search(head[:200]) is None
    )


class SharedStrings:
    """Shared strings by index, with escapes decoded; read from their part as far as they are needed."""

    def __init__(self, archive: WorkbookArchive, part: str) -> None:
        self._chunks = _decoded_strings(archive, part) if archive.has(part) else iter(())
        self._table = string_table(pa.array([], pa.string()))

    def up_to(self, largest: int) -> StringTable:
        """A table with the strings up to index ``largest`` at least, or all strings of the part."""
        if largest >= len(self._table):
            # At least double the table, so that not every chunk copies all of it.
            wanted, count, parts = max(largest + 1, 2 * len(self._table)), len(self._table), [self._table]
            while count < wanted and (strings := next(self._chunks, None)) is not None:
                parts.append(string_table(*strings))
                count += len(parts[-1])
            self._table = join_tables(parts)
        return self._table


Decoded = tuple[pa.StringArray, Mask]


def _decoded_strings(archive: WorkbookArchive, part: str) -> Iterator[Decoded]:
    """Strings of the part, some at a time, and which had escapes.

    The XML parser takes over at the first chunk that is not written as usual.
    """
    yielded = 0
    try:
        for texts, escaped in _fast_strings(archive, part):
            yielded += len(texts)
            yield texts, escaped
    except Unusual:
        for texts in _strict_strings(part, archive.chunks(part)):
            rest = texts.slice(min(yielded, len(texts)))
            yielded -= min(yielded, len(texts))
            if len(rest):
                yield decode_escapes(rest)


def _fast_strings(archive: WorkbookArchive, part: str) -> Iterator[Decoded]:
    rest, opened, closed = b"", False, False
    for chunk in archive.chunks(part, CHUNK_BYTES, first=FIRST_CHUNK_BYTES):
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
            if len(data) > MOST_ELEMENT_BYTES:
                raise TaskFault("file_limit", "a text of more than 64 MB", "64 MB")
            rest = data
            continue
        rest = data[cut:]
        yield _chunk_strings(b"".join((memoryview(data)[:cut], PADDING)))
    if not closed:
        raise Unusual("an unusual end")


def _chunk_strings(data: bytes) -> Decoded:
    """Strings of whole ``<si>`` elements, followed by ``PADDING``."""
    try:
        texts = _item_texts(data)
    except Unusual:
        if b"<!" in data or b"<?" in data:  # what looks like the end of an item may be inside of a comment
            raise
        texts = pa.concat_arrays(
            list(_strict_strings("shared texts", (b"<sst>", data[: -len(PADDING)], b"</sst>")))
        )
    if b"_x" in data or b"\r" in data or b"&#" in data:
        return decode_escapes(texts)
    return texts, np.zeros(len(texts), np.bool_)


def _item_texts(data: bytes) -> pa.StringArray:
    """Strings of ``<si>`` elements: all ``<t>`` of each, joined. Raises ``Unusual`` for phonetic runs."""
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
    joined = [""] * len(items)
    for owner, text in zip(owners.tolist(), texts.to_pylist(), strict=True):
        joined[owner] += text
    return pa.array(joined, pa.string())


def _strict_strings(part: str, chunks: Iterable[bytes]) -> Iterator[pa.StringArray]:
    """Strings of a whole part, or of a chunk between added tags, by the XML parser."""
    path: list[str] = []
    texts: list[str] = []
    parts: list[str] = []

    def start(name: str, _: Attributes) -> None:
        path.append(local_name(name))
        if path[-1] == "si":
            parts.clear()

    def end(_: str) -> None:
        if path.pop() == "si":
            texts.append("".join(parts))

    def text(data: str) -> None:
        if path and path[-1] == "t" and "rPh" not in path:
            parts.append(data)

    parser = make_parser(start, end, text)
    for chunk in chunks:
        feed(part, parser, (chunk,), final=False)
        yield pa.array(texts, pa.string())
        texts.clear()
    feed(part, parser, ())
    yield pa.array(texts, pa.string())
