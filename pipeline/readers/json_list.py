"""A .json document: where its list of records lies, its elements, and where its structure breaks.

This reader judges only the outer structure, and cuts the list into elements while it streams. The decoder judges the
elements, so that a broken element costs one record as long as the brackets show where it ends. A document with a broken
structure is one error of the file, with line and column: no record of it can be trusted.
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
from pipeline.readers.blocks import Block, FindEnd, blocks, repack, text_pieces
from pipeline.readers.csv_quotes import RecordEnds
from pipeline.readers.encoding import partition_text, prove_encoding
from pipeline.readers.formats import RANGE_BYTES, Inspection, Partition, Reading
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema


# Elements: commas and brackets outside of strings, found without decoding

_NESTING_CHANGE = np.zeros(256, np.int8)
_NESTING_CHANGE[[ord("["), ord("{")]] = 1
_NESTING_CHANGE[[ord("]"), ord("}")]] = -1
_NOT_BLANK = np.ones(256, np.bool_)
_NOT_BLANK[list(b" \t\r\n")] = False  # the white space of JSON, which has no form feed
_IS_STRUCTURE = _NESTING_CHANGE != 0
_IS_STRUCTURE[ord(",")] = True


@dataclass(slots=True)
class ElementScanner:
    """Follows the nesting of a JSON text over its pieces.

    ``depth`` is the nesting after the last byte; ``closed`` is the offset, in the last piece, after the bracket that
    closes the text (-1: still open).
    """

    depth: int = 0
    in_string: bool = False
    escaped: bool = False
    closed: int = -1

    def commas(self, data: bytes) -> Int64s:
        """Offsets of the commas between elements (nesting 1) in the next piece of the text: int64."""
        array = np.frombuffer(data, np.uint8)
        quotes = self._string_quotes(array)
        inside = self.in_string
        structure = np.flatnonzero(_IS_STRUCTURE[array])
        outside = ((np.searchsorted(quotes, structure) + inside) & 1) == 0
        structure = structure[outside]
        bytes_ = array[structure]
        depth = np.cumsum(_NESTING_CHANGE[bytes_], dtype=np.int64) + self.depth
        ends = np.flatnonzero(depth == 0)
        self.in_string = bool((len(quotes) + inside) & 1)
        if len(ends):
            self.closed = int(structure[ends[0]]) + 1
            structure, bytes_, depth = structure[: ends[0]], bytes_[: ends[0]], depth[: ends[0]]
            self.depth = 0
        elif len(depth):
            self.depth = int(depth[-1])
        commas: Int64s = structure[(bytes_ == ord(",")) & (depth == 1)]
        return commas

    def _string_quotes(self, array: npt.NDArray[np.uint8]) -> Int64s:
        """Offsets of the quotes that open or close a string: int64."""
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
    """Offsets of escaped bytes: those after each odd run of backslashes. ``first``: the first byte is escaped."""
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
    """The elements in a piece of a list that starts at an element; each ends after its comma."""
    ends = ElementScanner(depth=1).commas(data) + 1
    if final and data and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    return RecordEnds(ends, ends, np.arange(len(ends)))


def find_element_end(seen: bytes) -> FindEnd:
    """Finds the end of an element, after its comma; ``seen`` holds its bytes so far."""
    scanner = ElementScanner(depth=1)
    scanner.commas(seen)

    def find_end(data: bytes, final: bool) -> int:
        commas = scanner.commas(data)
        return int(commas[0]) + 1 if len(commas) else len(data) if final else -1

    return find_end


def are_filled(data: bytes, commas: Int64s, stop: int) -> Mask:
    """Whether each part between the commas, and the last one up to ``stop``, holds more than white space: bool."""
    starts, ends = np.concatenate([[0], commas + 1]), np.append(commas, stop)
    array = np.append(_NOT_BLANK[np.frombuffer(data, np.uint8)], np.False_)
    any_ = np.logical_or.reduceat(array, np.stack([starts, ends], 1).ravel())[::2]
    return np.asarray(any_ & (starts < ends))


# Structure

_WHITE_SPACE = b" \t\r\n"
_VALUE = msgspec.json.Decoder(msgspec.Raw)


def element_ranges(path: Path, document: Partition, size: int = RANGE_BYTES) -> tuple[Partition, ...]:
    """Cut the list that ``document`` holds into ranges of whole elements; none if it is empty.

    Proves that the list closes at the end of the text and that no element is blank. Raises ``FileFault``
    (``json_array_invalid``) with the line and column where the structure breaks.
    """
    scanner = ElementScanner(depth=1)
    at = start = document.start + 1
    parts: list[Partition] = []
    count, first, last_filled, end = 0, 1, False, -1
    for data in partition_text(path, replace(document, start=at)):
        rest = data  # text after the end of the list
        if end < 0:
            commas = scanner.commas(data)
            stop = scanner.closed - 1 if scanner.closed > 0 else len(data)
            filled_parts = are_filled(data, commas, stop)
            filled_parts[0] |= last_filled
            if not filled_parts[:-1].all():
                raise break_fault(path, document)
            last_filled = bool(filled_parts[-1])
            element_ends = at + commas + 1
            while (cut := int(np.searchsorted(element_ends, start + size))) < len(element_ends):
                border = int(element_ends[cut])
                parts.append(replace(document, order=len(parts), start=start, end=border, first_row=first))
                start, first = border, count + cut + 2
            count += len(commas)
            rest = data[scanner.closed :] if scanner.closed > 0 else b""
            end = at + stop if scanner.closed > 0 else -1
            if end >= 0 and data[stop : stop + 1] != b"]":
                raise break_fault(path, document)
        if rest.strip():
            raise _structure_fault(
                path, document, at + len(data) - len(rest.lstrip()), "text after the end of the document"
            )
        at += len(data)
    if end < 0 or (count and not last_filled):
        raise break_fault(path, document)
    if last_filled:
        parts.append(replace(document, order=len(parts), start=start, end=end, first_row=first))
    return tuple(parts)


def narrow_to_path(path: Path, document: Partition, records_at: str) -> Partition:
    """The partition narrowed to the value at a path of keys such as ``$.data.rows``.

    Raises ``FileFault`` if a key is missing or repeated.
    """
    data = b"".join(partition_text(path, document))
    begin, end = 0, len(data)
    for key in records_at.removeprefix("$").lstrip(".").split("."):
        if not key:
            continue
        found = [(b, e) for name, b, e in _members(data, begin, end, path, document) if name == key]
        if len(found) != 1:
            what = f"the key {key!r} twice" if found else f"no key {key!r}"
            raise file_fault(Reason.JSON_ARRAY_INVALID, document.source, what, f"records at {records_at}")
        begin, end = found[0]
    return replace(document, start=document.start + begin, end=document.start + end)


def _members(
    data: bytes, begin: int, end: int, path: Path, document: Partition
) -> Iterator[tuple[str, int, int]]:
    """Key, and byte range of the value, of each member of the object at ``begin``."""
    body = data[begin:end].strip()
    if body[:1] != b"{":
        raise file_fault(Reason.JSON_ARRAY_INVALID, document.source, "no object on the way", "an object")
    try:
        _VALUE.decode(body)
    except (msgspec.DecodeError, RecursionError):
        single_record(path, replace(document, start=document.start + begin, end=document.start + end), end)
    begin = data.index(b"{", begin) + 1
    scanner = ElementScanner(depth=1)
    commas = scanner.commas(data[begin:end])
    separators = np.concatenate([[-1], commas, [scanner.closed - 1]]) + begin
    for left, right in zip(separators[:-1].tolist(), separators[1:].tolist(), strict=True):
        member = data[left + 1 : right]
        if member.strip():
            quote = member.index(b'"')
            key, key_end = json.decoder.scanstring(member[quote:].decode(), 1)  # type: ignore[attr-defined]
            size = quote + len(member[quote:].decode()[:key_end].encode())
            colon = member.index(b":", size)
            value = member[colon + 1 :]
            lead = len(value) - len(value.lstrip(_WHITE_SPACE))
            yield key, left + 1 + colon + 1 + lead, left + 1 + len(member.rstrip(_WHITE_SPACE))


def single_record(path: Path, document: Partition, limit: int) -> Partition | None:
    """The partition of a document that is one value; None if its first line is a value and other lines follow.

    Raises ``FileFault`` if it does not parse. A value over ``limit`` bytes is not parsed: the reader reports its size.
    """
    data = b""
    for part in partition_text(path, document):
        data += part
        if len(data) > limit:
            return replace(document, form="object")
    decoded = data.decode()
    try:
        json.loads(decoded)
    except json.JSONDecodeError as error:
        if (
            error.msg == "Extra data"
            and decoded[: error.pos].strip("\r\n").count("\n") == 0
            and "\n" in decoded[: error.pos]
        ):
            return None
        raise _structure_fault(
            path, document, document.start + len(decoded[: error.pos].encode()), _parser_message(error.msg)
        ) from None
    except RecursionError:
        pass  # too deep for one record: the decoder reports it
    return replace(document, form="object")


def break_fault(path: Path, document: Partition) -> FileFault:
    """The fault of a list with a broken structure, with the first place where it is not JSON."""
    return _structure_fault(path, document, *_first_break(path, document))


def _structure_fault(path: Path, document: Partition, offset: int, why: str) -> FileFault:
    line, column = _line_and_column(path, document, offset)
    return file_fault(
        Reason.JSON_ARRAY_INVALID,
        document.source,
        f"{why} at line {line}, column {column}",
        "one JSON document",
    )


def _parser_message(message: str) -> str:
    """The message of the parser, in our words where it has others; it holds no text of the file."""
    return {"Extra data": "text after the end of the document"}.get(message, message.removesuffix(" at"))


def _first_break(path: Path, document: Partition) -> tuple[int, str]:
    """Offset and description of the first break, found by decoding one element after the other."""
    elements = replace(document, start=document.start + 1)
    at = elements.start
    for block in blocks(text_pieces(path, elements), split_elements, line=1, limit=2**31):
        at = elements.start + block.offset
        for start, end in zip([0, *block.ends[:-1].tolist()], block.ends.tolist(), strict=True):
            body = block.data[start:end].decode()
            comma = body.endswith(",")
            value = body[:-1] if comma else body
            offset_in_value, why = _element_break(value)
            if offset_in_value is None and not comma:
                offset_in_value, why = len(value.rstrip()), "the document ends early"
            if offset_in_value is not None:
                return at + start + len(value[:offset_in_value].encode()), why
        at += len(block.data)
    return at, "the document ends early"


def _element_break(element: str) -> tuple[int | None, str]:
    """Offset (None: no break) and description of the break in an element, or in the end of the list after it."""
    leading = len(element) - len(element.lstrip())
    try:
        _, size = json.JSONDecoder().raw_decode(element[leading:])
    except RecursionError:
        return None, ""
    except json.JSONDecodeError as error:
        if element[leading : leading + 1] == "]":  # a comma before the end, or text after an empty list
            rest = element[leading + 1 :].lstrip()
            return (
                (len(element) - len(rest), "text after the end of the document")
                if rest
                else (leading, "no element")
            )
        return leading + error.pos, _parser_message(error.msg)
    rest = element[leading + size :].lstrip()
    if not rest:
        return None, ""
    if rest[0] != "]":
        return len(element) - len(rest), "no comma between elements"
    after_list = rest[1:].lstrip()
    return (
        (len(element) - len(after_list), "text after the end of the document") if after_list else (None, "")
    )


def _line_and_column(path: Path, document: Partition, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset in the text."""
    line, column = 1, 1
    before = replace(document, start=0, end=offset)
    if offset:
        for data in partition_text(path, before):
            line += data.count(b"\n")
            tail = data.rsplit(b"\n", 1)
            column = len(tail[-1].decode(errors="ignore")) + (1 if len(tail) > 1 else column)
    return line, column


# The reader: a list of records, one record, records at a declared path, or JSON Lines under another name

INSPECTED_LINES = 100
"""Lines inspected to tell JSON Lines from one document."""


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove encoding and structure, and cut a large list into ranges of whole elements.

    Raises ``FileFault`` (``json_array_invalid``) for a document with a broken structure.
    """
    encoding = prove_encoding(claim.path, claim.source, schema.read.encodings)
    start = encoding.bom_bytes if encoding.codec == "utf-8" else 0
    document = Partition(claim.source, claim.schema_index, "json", start=start, encoding=encoding.codec)
    blank, body = _skip_blank_start(claim.path, document)
    if not body:
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "JSON records"),))
    document = replace(document, start=start + blank)
    if schema.read.records_at is not None:
        document = narrow_to_path(claim.path, document, schema.read.records_at)
    elif _are_lines(body):
        return jsonl.inspect(claim, schema, fields)
    if schema.read.records_at is not None:
        body = next(partition_text(claim.path, document))
    if body[:1] != b"[":
        value = single_record(claim.path, document, schema.read.limits.record_mb * 2**20)
        return jsonl.inspect(claim, schema, fields) if value is None else Inspection((value,))
    parts = element_ranges(claim.path, replace(document, form="array"))
    if not parts:
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "an empty list", "JSON records"),))
    return Inspection(parts)


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of raw JSON values, one a record; rows number the elements from 1."""
    limit = schema.read.limits.record_mb * 2**20

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        del dropped  # every element is a record
        found = blocks(
            text_pieces(path, partition),
            split_elements,
            line=partition.first_row,
            limit=limit,
            end_finder=find_element_end,
        )
        return repack(
            jsonl.batch_of_block(_commas_to_line_breaks(block), partition, schema, limit, Counter())
            for block in found
        )

    return Reading(batches)


def _commas_to_line_breaks(block: Block) -> Block:
    """The block with a line break in place of the comma after each element."""
    data = np.frombuffer(bytearray(block.data), np.uint8)
    last = block.ends - 1
    data[last[data[last] == ord(",")]] = ord("\n")
    return replace(block, data=data.tobytes())


def _skip_blank_start(path: Path, document: Partition) -> tuple[int, bytes]:
    """Number of bytes of white space at the start, and the beginning of the text after them."""
    blank = 0
    for data in partition_text(path, document):
        if body := data.lstrip():
            return blank + len(data) - len(body), body
        blank += len(data)
    return blank, b""


def _are_lines(body: bytes) -> bool:
    """Whether a text is JSON Lines: its first or second line is a whole JSON object, another line follows, and every
    inspected line begins like an object."""
    lines = [line for line in body.splitlines()[: INSPECTED_LINES + 1] if line.strip()]
    if len(lines) < 2 or not all(line.startswith(b"{") for line in lines[:-1]):
        return False
    return any(_is_object(line) for line in lines[:2])


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
