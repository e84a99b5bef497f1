"""A .json document: where its list of records lies, its elements, and where it breaks.

Only the outer structure is judged here. What an element holds is judged when it is decoded, so that a broken
element costs one record wherever the brackets still tell where it ends.

A list is cut by its structure in a stream (``elements.py``); a document whose structure does not hold is one
file-level error that names line and column, for then no record of it can be trusted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.findings import FileFault, FileNote, file_fault
from pipeline.readers import jsonl
from pipeline.readers.blocks import Block, End, blocks, repack, text_pieces
from pipeline.readers.csv_quotes import RecordEnds
from pipeline.readers.encoding import prove, text
from pipeline.readers.formats import RANGE_BYTES, Inspection, Partition, Reading
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema


# The elements of a JSON array, found in a stream without decoding it: commas and brackets outside of
# strings.


_CHANGE = np.zeros(256, np.int8)
_CHANGE[[ord("["), ord("{")]] = 1
_CHANGE[[ord("]"), ord("}")]] = -1
_SOLID = np.ones(256, np.bool_)
_SOLID[list(b" \t\r\n")] = False  # the white space of JSON: a form feed or a NUL is none
_MARK = _CHANGE != 0
_MARK[ord(",")] = True


@dataclass(slots=True)
class ElementScanner:
    """Follows the nesting of a JSON text over its pieces.

    ``depth`` is the nesting behind the last byte seen, ``closed`` the offset in the last piece behind the bracket
    that brought it to 0 (-1: not yet).
    """

    depth: int = 0
    in_string: bool = False
    escaped: bool = False
    closed: int = -1

    def commas(self, data: bytes) -> Int64s:
        """Offsets of the commas between elements (nesting 1) in the next piece of the text, up to its end."""
        array = np.frombuffer(data, np.uint8)
        quotes = self._quotes(array)
        inside = self.in_string
        marks = np.flatnonzero(_MARK[array])
        outside = ((np.searchsorted(quotes, marks) + inside) & 1) == 0
        marks = marks[outside]
        bytes_ = array[marks]
        depth = np.cumsum(_CHANGE[bytes_], dtype=np.int64) + self.depth
        ends = np.flatnonzero(depth == 0)
        self.in_string = bool((len(quotes) + inside) & 1)
        if len(ends):
            self.closed = int(marks[ends[0]]) + 1
            marks, bytes_, depth = marks[: ends[0]], bytes_[: ends[0]], depth[: ends[0]]
            self.depth = 0
        elif len(depth):
            self.depth = int(depth[-1])
        commas: Int64s = marks[(bytes_ == ord(",")) & (depth == 1)]
        return commas

    def _quotes(self, array: npt.NDArray[np.uint8]) -> Int64s:
        """Offsets of the quotes that open or close a string."""
        quote = array == ord('"')
        slashes = np.flatnonzero(array == ord("\\"))
        first = self.escaped
        self.escaped = False
        if len(slashes) or first:
            skip = _escaped(slashes, first)
            inside = skip[skip < len(array)]
            quote[inside] = False
            self.escaped = bool(len(skip) and skip[-1] == len(array))
        return np.flatnonzero(quote)


def _escaped(slashes: Int64s, first: bool) -> Int64s:
    """Offsets escaped by a backslash: behind each odd run of them. ``first``: the first byte is escaped already."""
    if first:
        rest = slashes[slashes > 0] if len(slashes) and slashes[0] == 0 else slashes
        return np.concatenate([np.zeros(1, np.int64), _escaped(rest, False)])
    if not len(slashes):
        return slashes
    starts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    lengths = np.diff(starts, append=len(slashes))
    escaped: Int64s = slashes[starts[lengths % 2 == 1]] + lengths[lengths % 2 == 1]
    return escaped


def split_elements(data: bytes, final: bool) -> RecordEnds:
    """The elements in a piece of a list's inside that starts at an element; each ends behind its comma."""
    ends = ElementScanner(depth=1).commas(data) + 1
    if final and data and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    return RecordEnds(ends, ends, np.arange(len(ends)))


def element_end(begun: bytes) -> End:
    """The end of an element of which ``begun`` has been seen: behind its comma."""
    scanner = ElementScanner(depth=1)
    scanner.commas(begun)

    def behind(data: bytes, final: bool) -> int:
        commas = scanner.commas(data)
        return int(commas[0]) + 1 if len(commas) else len(data) if final else -1

    return behind


def is_solid(data: bytes, commas: Int64s, stop: int) -> Mask:
    """Whether each piece between the commas, and the last one up to ``stop``, holds more than white space."""
    starts, ends = np.concatenate([[0], commas + 1]), np.append(commas, stop)
    array = np.append(_SOLID[np.frombuffer(data, np.uint8)], np.False_)
    any_ = np.logical_or.reduceat(array, np.stack([starts, ends], 1).ravel())[::2]
    return np.asarray(any_ & (starts < ends))


# The structure of a JSON document: where its list of records lies, whether it closes, and where it breaks.


_SPACE = b" \t\r\n"
_VALUE = msgspec.json.Decoder(msgspec.Raw)


def element_ranges(path: Path, whole: Partition, size: int = RANGE_BYTES) -> tuple[Partition, ...]:
    """The list that is the text of ``whole``, cut into ranges of whole elements; none when it is empty.

    Proves that it closes at the end of the text and that no element is blank. Raises ``FileFault``
    (``json_array_invalid``) with the line and column where it does not hold.
    """
    scanner = ElementScanner(depth=1)
    at = start = whole.start + 1
    parts: list[Partition] = []
    count, first, filled, end = 0, 1, False, -1
    for data in text(path, replace(whole, start=at)):
        rest = data  # text behind the end of the list
        if end < 0:
            commas = scanner.commas(data)
            stop = scanner.closed - 1 if scanner.closed > 0 else len(data)
            full = is_solid(data, commas, stop)
            full[0] |= filled
            if not full[:-1].all():
                raise find_break(path, whole)
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
                raise find_break(path, whole)
        if rest.strip():
            raise _fault(
                path, whole, at + len(data) - len(rest.lstrip()), "text after the end of the document"
            )
        at += len(data)
    if end < 0 or (count and not filled):
        raise find_break(path, whole)
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
            raise file_fault(Reason.JSON_ARRAY_INVALID, whole.source, what, f"records at {records_at}")
        begin, end = found[0]
    return replace(whole, start=whole.start + begin, end=whole.start + end)


def _members(
    data: bytes, begin: int, end: int, path: Path, whole: Partition
) -> Iterator[tuple[str, int, int]]:
    """Key, and range of the value, of each member of the object at ``begin``."""
    body = data[begin:end].strip()
    if body[:1] != b"{":
        raise file_fault(Reason.JSON_ARRAY_INVALID, whole.source, "no object on the way", "an object")
    try:
        _VALUE.decode(body)
    except (msgspec.DecodeError, RecursionError):
        is_single_record(path, replace(whole, start=whole.start + begin, end=whole.start + end), end)
    begin = data.index(b"{", begin) + 1
    scanner = ElementScanner(depth=1)
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


def is_single_record(path: Path, whole: Partition, limit: int) -> Partition | None:
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


def find_break(path: Path, whole: Partition) -> FileFault:
    """The fault of a list: the first place where it is no JSON."""
    return _fault(path, whole, *_first_break(path, whole))


def _fault(path: Path, whole: Partition, offset: int, why: str) -> FileFault:
    line, column = _place(path, whole, offset)
    return file_fault(
        Reason.JSON_ARRAY_INVALID, whole.source, f"{why} at line {line}, column {column}", "one JSON document"
    )


def _plain(message: str) -> str:
    """The parser's message; it holds no text of the file."""
    return {"Extra data": "text after the end of the document"}.get(message, message.removesuffix(" at"))


def _first_break(path: Path, whole: Partition) -> tuple[int, str]:
    """Offset of the first break, and what it is, by decoding one element after the other."""
    begin = replace(whole, start=whole.start + 1)
    at = begin.start
    for block in blocks(text_pieces(path, begin), split_elements, line=1, limit=2**31):
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


# A .json document: a list of records, one record, records at a declared path, or really JSON Lines.


LOOK_LINES = 100
"""Lines looked at to tell lines from a document."""


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove encoding and structure, and cut a large list into ranges of whole elements.

    Raises ``FileFault`` (``json_array_invalid``) for a document that does not parse.
    """
    encoding = prove(claim.path, claim.source, schema.read.encodings)
    start = encoding.mark if encoding.codec == "utf-8" else 0
    whole = Partition(claim.source, claim.schema_index, "json", start=start, encoding=encoding.codec)
    blank, body = _head(claim.path, whole)
    if not body:
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "JSON records"),))
    whole = replace(whole, start=start + blank)
    if schema.read.records_at is not None:
        whole = located(claim.path, whole, schema.read.records_at)
    elif _are_lines(body):
        return jsonl.inspect(claim, schema, fields)
    if schema.read.records_at is not None:
        body = next(text(claim.path, whole))
    if body[:1] != b"[":
        value = is_single_record(claim.path, whole, schema.read.limits.record_mb * 2**20)
        return jsonl.inspect(claim, schema, fields) if value is None else Inspection((value,))
    parts = element_ranges(claim.path, replace(whole, form="array"))
    if not parts:
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "an empty list", "JSON records"),))
    return Inspection(parts)


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of raw JSON values, one a record; rows count the elements from 1."""
    limit = schema.read.limits.record_mb * 2**20

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        del dropped  # every element is a record
        found = blocks(
            text_pieces(path, partition),
            split_elements,
            line=partition.first_row,
            limit=limit,
            ends=element_end,
        )
        return repack(
            jsonl.piece(_broken_at_commas(block), partition, schema, limit, Counter()) for block in found
        )

    return Reading(batches)


def _broken_at_commas(block: Block) -> Block:
    """The block with a line break in place of the comma behind each element."""
    data = np.frombuffer(bytearray(block.data), np.uint8)
    last = block.ends - 1
    data[last[data[last] == ord(",")]] = ord("\n")
    return replace(block, data=data.tobytes())


def _head(path: Path, whole: Partition) -> tuple[int, bytes]:
    """Bytes of white space in front, and the beginning of the text behind them."""
    blank = 0
    for data in text(path, whole):
        if body := data.lstrip():
            return blank + len(data) - len(body), body
        blank += len(data)
    return blank, b""


def _are_lines(body: bytes) -> bool:
    """Whether a text is JSON Lines: the first or second line is a whole JSON object, another line follows, and
    every line looked at begins like an object."""
    lines = [line for line in body.splitlines()[: LOOK_LINES + 1] if line.strip()]
    if len(lines) < 2 or not all(line.startswith(b"{") for line in lines[:-1]):
        return False
    return any(_is_object(line) for line in lines[:2])


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
