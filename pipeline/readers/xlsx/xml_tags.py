"""XML tags of a chunk as arrays. Only for chunks without comments, CDATA and instructions."""

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

# Texts as one run of bytes, to look for what is rare in all of them at once, and to replace it.


def flat_bytes(texts: pa.StringArray | pa.BinaryArray) -> tuple[Bytes, Int64s]:
    """Bytes of texts, and where each begins, int64 [n + 1], the last place being the end. Nulls are empty."""
    _, places, data = texts.buffers()
    if places is None or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    offsets = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def texts_at(offsets: Int64s, places: Int64s) -> Int64s:
    """Indices of the texts that hold the given places of the run, ascending, each once."""
    found = np.searchsorted(offsets, places, side="right") - 1
    once: Int64s = found[np.flatnonzero(np.diff(found, prepend=-1))]
    return once


def replaced(texts: pa.StringArray, places: Int64s, others: Sequence[str | None] | pa.StringArray) -> Any:
    """Texts with others (string [k]) at some places (int64 [k], ascending)."""
    if not len(places):
        return texts
    at = np.zeros(len(texts), np.bool_)
    at[places] = True
    return pc.replace_with_mask(texts, pa.array(at), pa.array(others, pa.string()))


# XML tags of a chunk as arrays. Only for chunks without comments, CDATA and instructions.


_LT, _GT, _SLASH, _ZERO, _AMPERSAND = b"<>/0&"
_ENTITIES = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "amp": "&"}
_REFERENCE = re.compile(r"&([^;&]{0,12});?")
PAD = bytes(64)
"""Zero bytes after a chunk, so that a look ahead needs no bounds check."""


class Unusual(Exception):
    """The chunk is not written the usual way; the exact parser must read it."""


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags in their order.

    Attributes:
        data: the chunk and ``PAD``; ``buffer``: the same bytes, uint8.
        starts, ends: int64 [n], place of ``<`` and of ``>``.
        first, second: uint8 [n], the two bytes after ``<``.
        closed: bool [n], whether the tag closes itself.
    """

    data: bytes
    buffer: Bytes
    starts: Int64s
    ends: Int64s
    first: Bytes
    second: Bytes
    closed: Mask


def find_tags(data: bytes) -> Tags:
    """Find all tags of a chunk that ends with ``PAD``. Raises ``Unusual`` where ``<`` and ``>`` do not pair."""
    buffer = np.frombuffer(data, np.uint8)
    both = np.flatnonzero((buffer & 0xFD) == _LT)  # the two differ in one bit
    starts, ends = both[0::2], both[1::2]
    if len(starts) != len(ends) or (buffer[starts] != _LT).any() or (buffer[ends] != _GT).any():
        # ">" may stand in a text as it is
        starts, ends = both[buffer[both] == _LT], both[buffer[both] == _GT]
        if not len(ends):
            raise Unusual("tags do not pair")
        ends = ends[np.minimum(np.searchsorted(ends, starts), len(ends) - 1)]
        if (ends <= starts).any() or (ends[:-1] >= starts[1:]).any():
            raise Unusual("tags do not pair")
    return Tags(
        data, buffer, starts, ends, buffer[starts + 1], buffer[starts + 2], buffer[ends - 1] == _SLASH
    )


def number_at(buffer: Bytes, places: Int64s, most: int) -> tuple[Int64s, Int64s]:
    """Decimal numbers that start at the given places: their values, and the places after their last digit.

    Raises ``Unusual`` for a number of no digit or of more than ``most``.
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
    """The bytes between places of the chunk, in the order of the chunk, without a copy of each."""
    if not len(starts):
        return pa.array([], pa.binary())
    edges = np.empty(2 * len(starts), np.int32)
    edges[0::2], edges[1::2] = starts, ends
    both = pa.BinaryArray.from_buffers(
        pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, len(edges), 2)))


def character_data(data: bytes, raw: pa.BinaryArray) -> pa.StringArray:
    """Character data of a chunk (``data``) as text: UTF-8 proven, line ends as XML reads them, references resolved.

    Raises ``Unusual`` for bytes that are not UTF-8 and for references that XML does not know.
    """
    try:
        text = raw.cast(pa.string())
    except pa.ArrowInvalid:
        raise Unusual("not UTF-8") from None
    # Asked of the chunk, not of each text: it is far quicker, and mostly the answer is no.
    if b"\r" in data:
        text = pc.replace_substring(pc.replace_substring(text, "\r\n", "\n"), "\r", "\n")
    if b"&" in data:
        run, offsets = flat_bytes(text)
        places = texts_at(offsets, np.flatnonzero(run == _AMPERSAND))
        text = replaced(text, places, resolve_references(text.take(pa.array(places)).to_pylist()))
    return text


def resolve_references(texts: list[str]) -> list[str]:
    """Texts with their references as the characters they stand for. Raises ``Unusual`` for what XML does not know."""
    whole = "\0".join(texts)
    named = sum(whole.count(f"&{name};") for name in _ENTITIES)
    if whole.count("&") != named or whole.count("\0") != len(texts) - 1:
        return [_REFERENCE.sub(_resolved, text) for text in texts]
    for name, character in _ENTITIES.items():  # "amp" last, for what it gives begins no other
        whole = whole.replace(f"&{name};", character)
    return whole.split("\0")


def _resolved(match: re.Match[str]) -> str:
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
