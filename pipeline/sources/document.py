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
from pipeline.sources.pieces import pieces

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
        rest = data  # text behind the end of the list
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
            raise _fault(
                path, whole, at + len(data) - len(rest.lstrip()), "text after the end of the document"
            )
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
        single(path, replace(whole, start=whole.start + begin, end=whole.start + end), end)
    begin = data.index(b"{", begin) + 1
    scanner = Scanner(depth=1)
    commas = scanner.commas(data[begin:end])
    edges = np.concatenate([[-1], commas, [scanner.closed - 1]]) + begin
    for left, right in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        member = data[left + 1 : right]
        if member.strip():
            quote = member.index(b'"')
            key, behind = json.decoder.scanstring(member[quote:].decode(), 1)  # type: ignore[attr-defined]
            size = quote + len(member[quote:].decode()[:behind].encode())
            colon = member.index(b":", size)
            value = member[colon + 1 :]
            lead = len(value) - len(value.lstrip(_SPACE))
            yield key, left + 1 + colon + 1 + lead, left + 1 + len(member.rstrip(_SPACE))


def single(path: Path, whole: Partition, limit: int) -> Partition | None:
    """The partition of a document that is one value; None when it is the first line of several, each a value.

    Raises ``FileFault`` when it does not parse. A value over ``limit`` bytes is left to the reader's limit.
    """
    data = b""
    for part in text(path, whole):
        data += part
        if len(data) > limit:
            return replace(whole, form="object")
    shown = data.decode()
    try:
        json.loads(shown)
    except json.JSONDecodeError as error:
        if (
            error.msg == "Extra data"
            and shown[: error.pos].strip("\r\n").count("\n") == 0
            and "\n" in shown[: error.pos]
        ):
            return None
        raise _fault(path, whole, whole.start + len(shown[: error.pos].encode()), _plain(error.msg)) from None
    except RecursionError:
        pass  # too deep for one record, which the decoder will say
    return replace(whole, form="object")


def broken(path: Path, whole: Partition) -> FileFault:
    """The fault of a list: the first place where it is no JSON."""
    return _fault(path, whole, *_first_break(path, whole))


def _fault(path: Path, whole: Partition, offset: int, why: str) -> FileFault:
    line, column = _place(path, whole, offset)
    return fault(
        Reason.JSON_ARRAY_INVALID, whole.source, f"{why} at line {line}, column {column}", "one JSON document"
    )


def _plain(message: str) -> str:
    """The parser's message; it holds no text of the file."""
    return {"Extra data": "text after the end of the document"}.get(message, message.removesuffix(" at"))


def _first_break(path: Path, whole: Partition) -> tuple[int, str]:
    """Offset of the first break, and what it is, by decoding one element after the other."""
    begin = replace(whole, start=whole.start + 1)
    at = begin.start
    for block in blocks(pieces(path, begin), split, line=1, limit=2**31):
        at = begin.start + block.offset
        for start, end in zip([0, *block.ends[:-1].tolist()], block.ends.tolist(), strict=True):
            body = block.data[start:end].decode()
            comma = body.endswith(",")
            value = body[:-1] if comma else body
            place, why = _element_break(value)
            if place is None and not comma:
                place, why = len(value.rstrip()), "the document ends early"
            if place is not None:
                return at + start + len(value[:place].encode()), why
        at += len(block.data)
    return at, "the document ends early"


def _element_break(element: str) -> tuple[int | None, str]:
    """Where an element of a list breaks, or the list ends behind it."""
    lead = len(element) - len(element.lstrip())
    try:
        _, size = json.JSONDecoder().raw_decode(element[lead:])
    except RecursionError:
        return None, ""
    except json.JSONDecodeError as error:
        if element[lead : lead + 1] == "]":  # a comma before the end, or text behind an empty list
            behind = element[lead + 1 :].lstrip()
            return (
                (len(element) - len(behind), "text after the end of the document")
                if behind
                else (lead, "no element")
            )
        return lead + error.pos, _plain(error.msg)
    behind = element[lead + size :].lstrip()
    if not behind:
        return None, ""
    if behind[0] != "]":
        return len(element) - len(behind), "no comma between elements"
    tail = behind[1:].lstrip()
    return (len(element) - len(tail), "text after the end of the document") if tail else (None, "")


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
