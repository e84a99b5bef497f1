"""The dialect of a delimited file: encoding, delimiter and header row, proven by the columns the schema expects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.reasons import Reason
from pipeline.sources import header
from pipeline.sources.encoding import prove, text
from pipeline.sources.fault import FileNote, fault
from pipeline.sources.partition import Inspection, Partition
from pipeline.sources.quotes import record, scan

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import Read
    from pipeline.sources.discover import Claim

DELIMITERS = ",;\t|"
"""Delimiters tried when none is declared."""

HEAD_BYTES = 4 * 2**20
"""Part of the file in which the header is looked for."""

_DECLARED = re.compile(rb'"?sep=(.)"?\r?\n', re.IGNORECASE)
"""First line by which spreadsheet programs declare the delimiter."""


@dataclass(frozen=True, slots=True)
class Row:
    """One of the first rows: its physical line, its cells, and the offset and line behind it."""

    line: int
    cells: list[str]
    end: int
    next_line: int


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the dialect of a delimited file and cut it into partitions.

    Raises ``FileFault`` for an unproven encoding (``file_encoding``) or header (``header_missing``,
    ``header_duplicate``).
    """
    from pipeline.sources.ranges import ranges

    encoding = prove(claim.path, claim.source, schema.read.encodings)
    start = encoding.mark if encoding.codec == "utf-8" else 0
    whole = Partition(claim.source, claim.schema_index, "csv", start=start, encoding=encoding.codec)
    head = _head(claim, whole)
    if not head.strip():
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "a header and records"),))
    delimiter, skip = _delimiter(head, claim, schema.read, fields)
    row = _header(head, skip, delimiter, schema.read, fields)
    if row is None or (schema.read.header != "none" and not header.holds(header.clean(row.cells), fields)):
        row = row or next(_rows(head, skip, delimiter))
    names = (
        [str(i + 1) for i in range(len(row.cells))]
        if schema.read.header == "none"
        else header.clean(row.cells)
    )
    columns = header.prove(names, fields, claim.source)
    at, line = (skip, row.line) if schema.read.header == "none" else (row.end, row.next_line)
    partition = Partition(
        claim.source, claim.schema_index, "csv", start=start + at, first_row=line, header=columns,
        encoding=encoding.codec, delimiter=delimiter, decimal=_decimal(schema.read.decimal, delimiter),
    )  # fmt: skip
    limit = schema.read.limits.record_mb * 2**20
    mark = ord(delimiter)
    parts = ranges(claim, schema, partition, lambda data, final: scan(data, mark, final=final, limit=limit))
    return Inspection(parts)


def _head(claim: Claim, whole: Partition) -> bytes:
    head = b""
    for data in text(claim.path, whole):
        head += data
        if len(head) >= HEAD_BYTES:
            break
    return head


def _delimiter(head: bytes, claim: Claim, read: Read, fields: Sequence[Field]) -> tuple[str, int]:
    """The delimiter, and the length of a first line that declares it."""
    match = _DECLARED.match(head)
    skip = match.end() if match else 0
    if read.delimiter != "auto":
        if not read.delimiter.isascii():
            raise fault(
                Reason.FILE_UNREADABLE, claim.source, "a delimiter that is not ASCII", "an ASCII delimiter"
            )
        return read.delimiter, skip
    if match and read.header != "none":
        return match[1].decode("ascii", "replace"), skip
    if claim.format == "tsv":
        return "\t", skip
    proven: list[tuple[int, str]] = []
    for delimiter in DELIMITERS:
        row = _header(head, skip, delimiter, read, fields)
        names = [] if row is None else header.clean(row.cells)
        if read.header == "none" and row is not None:
            names = [str(i + 1) for i in range(len(row.cells))]
        if row is not None and header.holds(names, fields):
            proven.append((len(names), delimiter))
    if not proven:
        return ",", skip
    most = max(count for count, _ in proven)
    return next(delimiter for count, delimiter in proven if count == most), skip


def _header(head: bytes, skip: int, delimiter: str, read: Read, fields: Sequence[Field]) -> Row | None:
    """The header row, as the schema says where it is; None when it is not there."""
    rows = (row for row in _rows(head, skip, delimiter))
    if isinstance(read.header, int):
        return next((row for row in rows if row.line >= read.header), None)
    filled = (row for row in rows if any(cell.strip() for cell in row.cells))
    if read.header != "find":
        return next(filled, None)
    for _, row in zip(range(header.SEARCH_ROWS), filled, strict=False):
        if header.holds(header.clean(row.cells), fields):
            return row
    return None


def _rows(head: bytes, skip: int, delimiter: str) -> Iterator[Row]:
    at, line = skip, 1 + (skip > 0)
    while at < len(head):
        cells: list[bytes] = []
        end, _, _ = record(head, at, ord(delimiter), final=True, limit=len(head), fields=cells)
        assert end is not None  # noqa: S101 - a final block has no unfinished record
        lines = _lines(head[at:end])
        yield Row(line, [cell.decode(errors="replace") for cell in cells], end, line + lines)
        at, line = end, line + lines


def _lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _decimal(declared: str, delimiter: str) -> str:
    """Decimal marks of the cells. ``auto`` takes either where a comma does not separate the fields."""
    if declared != "auto":
        return declared
    return "." if delimiter == "," else ".,"
