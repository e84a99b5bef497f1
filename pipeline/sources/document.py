"""The structure of a JSON document: where its list of records lies, whether it closes, and where it breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from pipeline.reasons import Reason
from pipeline.sources.blocks import blocks
from pipeline.sources.elements import Scanner, solid, split
from pipeline.sources.encoding import text
from pipeline.sources.fault import FileFault, fault
from pipeline.sources.partition import RANGE_BYTES, Partition

_SPACE = b" \t\r\n"
_VALUE = msgspec.json.Decoder(msgspec.Raw)


def ranges(path: Path, whole: Partition, size: int = RANGE_BYTES) -> tuple[Partition, ...]:
    """The list that is the text of ``whole``, cut into ranges of whole elements; none when it is empty.

    Proves that it closes at the end of the text and that no element is blank. Raises ``FileFault``
    (``json_array_invalid``) with the line and column where it does not hold.
    """
    scanner = Scanner(depth=1)
    at = start = whole.start + 1
    parts: list[Partition] = []
    count, first, filled, end = 0, 1, False, -1
    for data in text(path, replace(whole, start=at)):
        rest = data
        if end < 0:
            commas = scanner.commas(data)
            stop = scanner.closed - 1 if scanner.closed > 0 else len(data)
            full = solid(data, commas, stop)
            full[0] |= filled
            if not full[:-1].all():
                raise broken(path, whole)
            filled = bool(full[-1])
            behind = at + commas + 1
            while (cut := int(np.searchsorted(behind, start + size))) < len(behind):
                border = int(behind[cut])
                parts.append(replace(whole, order=len(parts), start=start, end=border, first_row=first))
                start, first = border, count + cut + 2
            count += len(commas)
            rest = data[scanner.closed :] if scanner.closed > 0 else b""
            end = at + stop if scanner.closed > 0 else -1
            if end >= 0 and data[stop : stop + 1] != b"]":
                raise broken(path, whole)
        if rest.strip():
            raise broken(path, whole)
        at += len(data)
    if end < 0 or (count and not filled):
        raise broken(path, whole)
    if filled:
        parts.append(replace(whole, order=len(parts), start=start, end=end, first_row=first))
    return tuple(parts)


def located(path: Path, whole: Partition, records_at: str) -> Partition:
    """The partition narrowed to the value at a path of keys such as ``$.data.rows``."""
    data = b"".join(text(path, whole))
    begin, end = 0, len(data)
    for key in records_at.removeprefix("$").lstrip(".").split("."):
        if not key:
            continue
        found = [(b, e) for name, b, e in _members(data, begin, end, path, whole) if name == key]
        if len(found) != 1:
            what = f"the key {key!r} twice" if found else f"no key {key!r}"
            raise fault(Reason.JSON_ARRAY_INVALID, whole.source, what, f"records at {records_at}")
        begin, end = found[0]
    return replace(whole, start=whole.start + begin, end=whole.start + end)


def _members(
    data: bytes, begin: int, end: int, path: Path, whole: Partition
) -> Iterator[tuple[str, int, int]]:
    """Key, and range of the value, of each member of the object at ``begin``."""
    body = data[begin:end].strip()
    if body[:1] != b"{":
        raise fault(Reason.JSON_ARRAY_INVALID, whole.source, "no object on the way", "an object")
    try:
        _VALUE.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise broken(path, replace(whole, start=whole.start + begin)) from None
    begin = data.index(b"{", begin) + 1
    scanner = Scanner(depth=1)
    commas = scanner.commas(data[begin:end])
    edges = np.concatenate([[-1], commas, [scanner.closed - 1]]) + begin
    for left, right in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        member = data[left + 1 : right]
        if member.strip():
            quote = member.index(b'"')
            key, behind = json.decoder.scanstring(member[quote:].decode(), 1)
            size = quote + len(member[quote:].decode()[:behind].encode())
            colon = member.index(b":", size)
            value = member[colon + 1 :]
            lead = len(value) - len(value.lstrip(_SPACE))
            yield key, left + 1 + colon + 1 + lead, left + 1 + len(member.rstrip(_SPACE))


def single(path: Path, whole: Partition) -> Partition:
    """The partition of a document that is one value. Raises ``FileFault`` when more text follows it."""
    scanner = Scanner()
    end, at = -1, whole.start
    for data in text(path, whole):
        rest = data
        if end < 0:
            scanner.commas(data)
            end = at + scanner.closed if scanner.closed > 0 else -1
            rest = data[scanner.closed :] if end >= 0 else b""
        if rest.strip():
            raise broken(path, whole)
        at += len(data)
    return replace(whole, form="object")


def broken(path: Path, whole: Partition) -> FileFault:
    """The fault of a document: the first place where it is no JSON."""
    offset, why = _first_break(path, whole)
    line, column = _place(path, whole, offset)
    return fault(
        Reason.JSON_ARRAY_INVALID, whole.source, f"{why} at line {line}, column {column}", "one JSON document"
    )


def _first_break(path: Path, whole: Partition) -> tuple[int, str]:
    """Offset of the first break, and what it is, by decoding one element after the other."""
    begin = replace(whole, start=whole.start + 1)
    at = begin.start
    for block in blocks(text(path, begin), split, line=1, limit=2**31):
        at = begin.start + block.offset
        for start, end in zip([0, *block.ends[:-1].tolist()], block.ends.tolist(), strict=True):
            element = block.data[start:end].removesuffix(b",")
            try:
                value, size = json.JSONDecoder().raw_decode((body := element.decode()).lstrip())
                del value
            except RecursionError:
                continue
            except json.JSONDecodeError as error:
                lead = len(body) - len(body.lstrip())
                return at + start + len(body[: lead + error.pos].encode()), error.msg
            lead = len(body) - len(body.lstrip())
            behind = body[lead + size :].lstrip()
            if behind:
                closes = len(body) - len(behind) + behind.startswith("]")
                tail = body[closes:].lstrip()
                why = (
                    "text after the end of the list"
                    if behind.startswith("]")
                    else "no comma between elements"
                )
                return at + start + len(body[: len(body) - len(tail)].encode()), why
        at += len(block.data)
    return at, "the document ends early"


def _place(path: Path, whole: Partition, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset in the text."""
    line, column = 1, 1
    until = replace(whole, start=0, end=offset)
    if offset:
        for data in text(path, until):
            line += data.count(b"\n")
            tail = data.rsplit(b"\n", 1)
            column = len(tail[-1].decode(errors="ignore")) + (1 if len(tail) > 1 else column)
    return line, column
