"""XML tags and character data of a chunk as arrays.

This works on chunks without comments, CDATA and processing instructions; every other chunk raises ``Unusual``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Texts as one array of bytes, to search all of them at once


def flat_bytes(texts: pa.StringArray | pa.BinaryArray) -> tuple[Bytes, Int64s]:
    """The bytes of texts, end to end, and the offsets of the texts in them (int64 [n + 1]). Nulls are empty."""
    _, places, data = texts.buffers()
    if places is None or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    offsets = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def texts_at(offsets: Int64s, places: Int64s) -> Int64s:
    """Indices of the texts that hold the bytes at the given places, ascending, each once: int64."""
    found = np.searchsorted(offsets, places, side="right") - 1
    once: Int64s = found[np.flatnonzero(np.diff(found, prepend=-1))]
    return once


def replace_texts(
    texts: pa.StringArray, places: Int64s, others: Sequence[str | None] | pa.StringArray
) -> Any:
    """The texts with ``others`` (string [k]) at the indices ``places`` (int64 [k], ascending)."""
    if not len(places):
        return texts
    at = np.zeros(len(texts), np.bool_)
    at[places] = True
    return pc.replace_with_mask(texts, pa.array(at), pa.array(others, pa.string()))


# Tags

_LT, _GT, _SLASH, _ZERO, _AMPERSAND = b"<>/0&"
_ENTITIES = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "amp": "&"}
_REFERENCE = re.compile(r"&([^;&]{0,12});?")
PADDING = bytes(64)
"""Zero bytes after a chunk, so that reading ahead needs no bounds check."""


class Unusual(Exception):
    """The chunk is not written as programs usually write it: the XML parser must read it."""


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags in their order.

    Attributes:
        data, buffer: the chunk and ``PADDING``, as bytes and as uint8.
        starts, ends: int64 [n], offset of ``<`` and of ``>``.
        first, second: uint8 [n], the two bytes after ``<``.
        closed: bool [n], whether the tag closes itself.
    """

    buffer: Bytes
    starts: Int64s
    ends: Int64s
    first: Bytes
    second: Bytes
    closed: Mask


def find_tags(data: bytes) -> Tags:
    """Find all tags of a chunk that ends with ``PADDING``. Raises ``Unusual`` if ``<`` and ``>`` do not pair."""
    buffer = np.frombuffer(data, np.uint8)
    both = np.flatnonzero((buffer & 0xFD) == _LT)  # < and > differ in one bit
    starts, ends = both[0::2], both[1::2]
    if len(starts) != len(ends) or (buffer[starts] != _LT).any() or (buffer[ends] != _GT).any():
        # a text may hold ">" unescaped
        starts, ends = both[buffer[both] == _LT], both[buffer[both] == _GT]
        if not len(ends):
            raise Unusual("tags do not pair")
        ends = ends[np.minimum(np.searchsorted(ends, starts), len(ends) - 1)]
        if (ends <= starts).any() or (ends[:-1] >= starts[1:]).any():
            raise Unusual("tags do not pair")
    return Tags(buffer, starts, ends, buffer[starts + 1], buffer[starts + 2], buffer[ends - 1] == _SLASH)


def number_at(buffer: Bytes, places: Int64s, most: int) -> tuple[Int64s, Int64s]:
    """Decimal numbers at the given offsets: their values, and the offsets after their last digits (int64 both).

    Raises ``Unusual`` for a number without a digit or with more than ``most``.
    """
    values = np.zeros(len(places), np.int64)
    at = places.copy()
    live = np.ones(len(places), np.bool_)
    for step in range(most + 1):
        digit = buffer[at].astype(np.int64) - _ZERO
        live &= (digit >= 0) & (digit <= 9)
        if not live.any():
            break
        if step == most:
            raise Unusual("a long number")
        values = np.where(live, values * 10 + digit, values)
        at += live
    if (at == places).any():
        raise Unusual("no number")
    return values, at


def slice_bytes(data: bytes, starts: Int64s, ends: Int64s) -> pa.BinaryArray:
    """The bytes between offsets of the chunk, in the order of the chunk: binary [n]."""
    if not len(starts):
        return pa.array([], pa.binary())
    edges = np.empty(2 * len(starts), np.int32)
    edges[0::2], edges[1::2] = starts, ends
    both = pa.BinaryArray.from_buffers(
        pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, len(edges), 2)))


def character_data(data: bytes, raw: pa.BinaryArray) -> pa.StringArray:
    """Character data of a chunk (``data``) as text: UTF-8 checked, line ends normalized, references resolved.

    Raises ``Unusual`` for bytes that are not UTF-8 and for references that XML does not define.
    """
    try:
        text = raw.cast(pa.string())
    except pa.ArrowInvalid:
        raise Unusual("not UTF-8") from None
    # Testing the whole chunk is far faster than testing each text, and most chunks have neither.
    if b"\r" in data:
        text = pc.replace_substring(pc.replace_substring(text, "\r\n", "\n"), "\r", "\n")
    if b"&" in data:
        run, offsets = flat_bytes(text)
        places = texts_at(offsets, np.flatnonzero(run == _AMPERSAND))
        text = replace_texts(text, places, resolve_references(text.take(pa.array(places)).to_pylist()))
    return text


def resolve_references(texts: list[str]) -> list[str]:
    """Texts with their references resolved. Raises ``Unusual`` for a reference that XML does not define."""
    joined = "\0".join(texts)
    named = sum(joined.count(f"&{name};") for name in _ENTITIES)
    if joined.count("&") != named or joined.count("\0") != len(texts) - 1:
        return [_REFERENCE.sub(_resolve_match, text) for text in texts]
    for (
        name,
        character,
    ) in _ENTITIES.items():  # "amp" comes last, so that its "&" does not begin a new reference
        joined = joined.replace(f"&{name};", character)
    return joined.split("\0")


def _resolve_match(match: re.Match[str]) -> str:
    name = match[1]
    if name in _ENTITIES:
        return _ENTITIES[name]
    digits = name.removeprefix("#")
    try:
        code = int(digits[1:], 16) if digits[:1] == "x" else int(digits)
        if name[0] == "#" and (code >= 32 or code in (9, 10, 13)) and not 0xD800 <= code <= 0xDFFF:
            return chr(code)
    except (ValueError, OverflowError):
        pass
    raise Unusual("a reference")
