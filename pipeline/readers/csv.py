"""Delimited text: its dialect, proven by the expected columns, and its records, every broken row set aside by
itself.

Quotes are audited first (``quotes.py``): rows whose quotes are broken never reach the parser, so that none of them
swallows the rows below. Pyarrow parses the others; its invalid rows are those with another number of fields than the
header.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.findings import FileNote, file_fault
from pipeline.readers import header
from pipeline.readers.blocks import Block, blocks, repack, text_pieces
from pipeline.readers.csv_quotes import CR, LF, RecordEnds, find_records, scan_record
from pipeline.readers.encoding import prove, text
from pipeline.readers.formats import Inspection, Partition, Reading
from pipeline.reasons import Reason
from pipeline.values.text_checks import is_clean, is_utf8

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import Read


# The dialect of a delimited file: encoding, delimiter and header row, proven by the columns the schema
# expects.


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


def inspect_dialect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the dialect of a delimited file and cut it into partitions.

    Raises ``FileFault`` for an unproven encoding (``file_encoding``) or header (``header_missing``,
    ``header_duplicate``).
    """
    from pipeline.readers.ranges import ranges

    encoding = prove(claim.path, claim.source, schema.read.encodings)
    start = encoding.mark if encoding.codec == "utf-8" else 0
    whole = Partition(claim.source, claim.schema_index, "csv", start=start, encoding=encoding.codec)
    head = _head(claim, whole)
    if not head.strip():
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "a header and records"),))
    delimiter, skip = _delimiter(head, claim, schema.read, fields)
    row = _header(head, skip, delimiter, schema.read, fields)
    if row is None or (
        schema.read.header != "none" and not header.holds_columns(header.clean_names(row.cells), fields)
    ):
        row = row or next(_rows(head, skip, delimiter))
    names = (
        [str(i + 1) for i in range(len(row.cells))]
        if schema.read.header == "none"
        else header.clean_names(row.cells)
    )
    columns = header.prove_header(names, fields, claim.source)
    at, line = (skip, row.line) if schema.read.header == "none" else (row.end, row.next_line)
    partition = Partition(
        claim.source, claim.schema_index, "csv", start=start + at, first_row=line, header=columns,
        encoding=encoding.codec, delimiter=delimiter, decimal=_decimal(schema.read.decimal, delimiter),
    )  # fmt: skip
    limit = schema.read.limits.record_mb * 2**20
    mark = ord(delimiter)
    parts = ranges(
        claim, schema, partition, lambda data, final: find_records(data, mark, final=final, limit=limit)
    )
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
            raise file_fault(
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
        names = [] if row is None else header.clean_names(row.cells)
        if read.header == "none" and row is not None:
            names = [str(i + 1) for i in range(len(row.cells))]
        if row is not None and header.holds_columns(names, fields):
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
        if header.holds_columns(header.clean_names(row.cells), fields):
            return row
    return None


def _rows(head: bytes, skip: int, delimiter: str) -> Iterator[Row]:
    at, line = skip, 1 + (skip > 0)
    while at < len(head):
        cells: list[bytes] = []
        end, _, _ = scan_record(head, at, ord(delimiter), final=True, limit=len(head), fields=cells)
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


# Delimited text: one record a row, with every broken row set aside by itself.


Bad = dict[int, tuple[Reason, str, str]]
"""Unread records of a block: place → reason, found, expected."""


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove encoding, delimiter and header, and cut a large file into ranges of whole records."""

    return inspect_dialect(claim, schema, fields)


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of cells: String columns by header, null for a blank cell, null throughout for an unread row."""
    limit = schema.read.limits.record_mb * 2**20
    delimiter = ord(partition.delimiter)

    def borders(data: bytes, final: bool) -> RecordEnds:
        return find_records(data, delimiter, final=final, limit=limit)

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        found = blocks(text_pieces(path, partition), borders, line=partition.first_row, limit=limit)
        return repack(_piece(block, partition, schema, limit, dropped) for block in found)

    return Reading(batches)


def _piece(
    block: Block, partition: Partition, schema: Schema, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    """One block of records as a batch with ids from 0, what was found on them, and their size in bytes."""
    import polars as pl

    starts = np.concatenate([[0], block.ends[:-1]])
    bad: Bad = {item.index: (item.reason, item.found, "") for item in block.broken}
    if block.oversized:
        bad[0] = (Reason.LINE_TOO_LONG, str(block.oversized), str(limit))
    first = np.frombuffer(block.data, np.uint8)[starts]
    whole = (first != LF) & (first != CR)  # an empty line is no row for the parser either
    whole[list(bad)] = False
    places = np.flatnonzero(whole)
    cells, ragged = _parse(_without(block, starts, bad) if bad else block.data, partition)
    for number, count in ragged:
        place = int(places[number - 1])
        if block.data[starts[place] : block.ends[place]].strip():
            bad[place] = (Reason.ROW_RAGGED, str(count), str(len(partition.header)))
    if ragged:
        places = np.delete(places, [number - 1 for number, _ in ragged])
    if len(places) != cells.height:
        raise RuntimeError(f"{cells.height} rows parsed of {len(places)}")
    cells, places = _without_blanks(cells, places)
    kept = np.union1d(places, np.fromiter(bad, np.int64, len(bad))) if bad else places
    dropped["blank"] += len(starts) - len(kept)
    rows = block.line + block.lines[kept]
    batch = Batch(
        partition.source, None, np.arange(len(rows), dtype=np.int64), rows, pl.DataFrame(), cells,
        decimal=partition.decimal, sound=is_clean(block.data),
    )  # fmt: skip
    if not bad:
        return batch, Findings(), len(block.data)
    unread = ~np.isin(kept, places, assume_unique=True)
    raw = _raw(block, starts, kept, unread)
    batch = replace(batch, cells=_with_unread(cells, unread), raw=raw, unread=unread)
    return batch, _findings(bad, kept, schema), len(block.data)


def _parse(data: bytes, partition: Partition) -> tuple[pl.DataFrame, list[tuple[int, int]]]:
    """The cells of whole rows, and the ragged ones among them: (number from 1, fields)."""
    import polars as pl
    import pyarrow as pa
    from pyarrow import csv

    ragged: list[tuple[int, int]] = []

    def aside(row: csv.InvalidRow) -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    names = list(partition.header)
    if not data.strip(b"\r\n"):
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String)), ragged
    if data.startswith(b"\xef\xbb\xbf"):
        data = b"\n" + data  # a mark inside the text is text: the parser takes it off the front only
    if not is_utf8(data):
        raise file_fault(Reason.FILE_CHANGED, partition.source, "bytes that were UTF-8 when it was inspected")
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=partition.delimiter, newlines_in_values=True, invalid_row_handler=aside
        ),
        convert_options=csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    return pl.DataFrame(pl.from_arrow(table)), ragged


def _without(block: Block, starts: Int64s, bad: Bad) -> bytes:
    """The block's bytes without its broken records."""
    parts = []
    at = 0
    for place in sorted(bad):
        parts.append(block.data[at : starts[place]])
        at = int(block.ends[place])
    return b"".join([*parts, block.data[at:]])


def _without_blanks(cells: pl.DataFrame, places: Int64s) -> tuple[pl.DataFrame, Int64s]:
    """The cells without rows that are blank throughout."""
    import polars as pl

    if not all(column.null_count() for column in cells.get_columns()):
        return cells, places
    blank = cells.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    if not blank.any():
        return cells, places
    return cells.filter(pl.Series(~blank)), places[~blank]


def _with_unread(cells: pl.DataFrame, unread: Mask) -> pl.DataFrame:
    """The cells with a row of nulls for each unread record."""
    import polars as pl

    index = pl.Series(np.cumsum(~unread) - 1, dtype=pl.Int64).set(pl.Series(unread), None)
    return cells.select(pl.all().gather(index))


def _raw(block: Block, starts: Int64s, kept: Int64s, unread: Mask) -> pa.Array:
    import pyarrow as pa

    spans = zip(starts[kept].tolist(), block.ends[kept].tolist(), unread.tolist(), strict=True)
    raw = [block.data[start:end].rstrip(b"\r\n") if lost else None for start, end, lost in spans]
    return pa.array(raw, pa.binary())


def _findings(bad: Bad, kept: Int64s, schema: Schema) -> Findings:
    findings = Findings()
    for reason in dict.fromkeys(item[0] for item in bad.values()):
        places = sorted(place for place, item in bad.items() if item[0] is reason)
        findings.add(
            reason,
            schema.policy(reason),
            "",
            np.searchsorted(kept, places).astype(np.int64),
            found=[bad[place][1] for place in places],
            expected=[bad[place][2] for place in places],
        )
    return findings
