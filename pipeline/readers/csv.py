"""Delimited text: the dialect, proven by the expected columns, and the records. Each broken row is set aside by itself.

``csv_quotes`` checks the quotes first: a row with broken quotes never reaches the parser, where it would swallow the
rows below it. Pyarrow parses all other rows and reports those whose number of fields differs from the header's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.findings import FileNote, file_fault
from pipeline.readers import header
from pipeline.readers.blocks import Block, blocks, repack, text_pieces
from pipeline.readers.csv_quotes import CR, LF, RecordEnds, find_records, scan_record
from pipeline.readers.encoding import partition_text, prove_encoding
from pipeline.readers.formats import Inspection, Partition, Reading
from pipeline.reasons import Reason
from pipeline.values.text_checks import is_clean, is_utf8

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import Read


# Inspection

DELIMITERS = ",;\t|"
"""Delimiters tried when none is declared."""

HEAD_BYTES = 4 * 2**20
"""Bytes of the file in which the header is searched."""

_DECLARED_DELIMITER = re.compile(rb'"?sep=(.)"?\r?\n', re.IGNORECASE)
"""First line by which spreadsheet programs declare the delimiter."""


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One of the first rows: its physical line, its cells, and the offset and line after it."""

    line: int
    cells: list[str]
    end: int
    next_line: int


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove encoding, delimiter and header, and cut a large file into ranges of whole records.

    Raises ``FileFault`` for an unproven encoding (``file_encoding``) or header (``header_missing``,
    ``header_duplicate``).
    """
    from pipeline.readers.ranges import cut_ranges

    encoding = prove_encoding(claim.path, claim.source, schema.read.encodings)
    start = encoding.bom_bytes if encoding.codec == "utf-8" else 0
    whole_file = Partition(claim.source, claim.schema_index, "csv", start=start, encoding=encoding.codec)
    head = _read_head(claim, whole_file)
    if not head.strip():
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no text", "a header and records"),))
    delimiter, skip = _prove_delimiter(head, claim, schema.read, fields)
    row = _find_header(head, skip, delimiter, schema.read, fields)
    row = row or next(_head_rows(head, skip, delimiter))
    columns = header.prove_header(_column_names(row, schema.read), fields, claim.source)
    at, line = (skip, row.line) if schema.read.header == "none" else (row.end, row.next_line)
    partition = Partition(
        claim.source,
        claim.schema_index,
        "csv",
        start=start + at,
        first_row=line,
        header=columns,
        encoding=encoding.codec,
        delimiter=delimiter,
        decimal=_decimal(schema.read.decimal, delimiter),
    )
    limit = schema.read.limits.record_mb * 2**20
    mark = ord(delimiter)
    parts = cut_ranges(
        claim, schema, partition, lambda data, final: find_records(data, mark, final=final, limit=limit)
    )
    return Inspection(parts)


def _read_head(claim: Claim, partition: Partition) -> bytes:
    head = b""
    for data in partition_text(claim.path, partition):
        head += data
        if len(head) >= HEAD_BYTES:
            break
    return head


def _prove_delimiter(head: bytes, claim: Claim, read: Read, fields: Sequence[Field]) -> tuple[str, int]:
    """The delimiter, and the length of the first line if that declares it, else 0."""
    match = _DECLARED_DELIMITER.match(head)
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
        row = _find_header(head, skip, delimiter, read, fields)
        names = [] if row is None else _column_names(row, read)
        if row is not None and header.holds_columns(names, fields):
            proven.append((len(names), delimiter))
    if not proven:
        return ",", skip
    most = max(count for count, _ in proven)
    return next(delimiter for count, delimiter in proven if count == most), skip


def _column_names(row: HeadRow, read: Read) -> list[str]:
    """The names in a header row; the numbers of the columns from 1 for a file without a header."""
    if read.header == "none":
        return [str(i + 1) for i in range(len(row.cells))]
    return header.clean_names(row.cells)


def _find_header(
    head: bytes, skip: int, delimiter: str, read: Read, fields: Sequence[Field]
) -> HeadRow | None:
    """The header row, where the schema expects it; None if there is none."""
    rows = _head_rows(head, skip, delimiter)
    if isinstance(read.header, int):
        return next((row for row in rows if row.line >= read.header), None)
    filled = (row for row in rows if any(cell.strip() for cell in row.cells))
    if read.header != "find":
        return next(filled, None)
    for _, row in zip(range(header.SEARCH_ROWS), filled, strict=False):
        if header.holds_columns(header.clean_names(row.cells), fields):
            return row
    return None


def _head_rows(head: bytes, skip: int, delimiter: str) -> Iterator[HeadRow]:
    at, line = skip, 1 + (skip > 0)
    while at < len(head):
        cells: list[bytes] = []
        end, _, _ = scan_record(head, at, ord(delimiter), final=True, limit=len(head), fields=cells)
        assert end is not None  # noqa: S101 - a final block has no unfinished record
        lines = _count_lines(head[at:end])
        yield HeadRow(line, [cell.decode(errors="replace") for cell in cells], end, line + lines)
        at, line = end, line + lines


def _count_lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _decimal(declared: str, delimiter: str) -> str:
    """Decimal marks of the cells. ``auto`` accepts both marks unless a comma separates the fields."""
    if declared != "auto":
        return declared
    return "." if delimiter == "," else ".,"


# Reading

Faults = dict[int, tuple[Reason, str, str]]
"""Unread records of a block: index → reason, found, expected."""


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of cells: String columns by header; null for a blank cell and for every cell of an unread row."""
    limit = schema.read.limits.record_mb * 2**20
    delimiter = ord(partition.delimiter)

    def find(data: bytes, final: bool) -> RecordEnds:
        return find_records(data, delimiter, final=final, limit=limit)

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        found = blocks(text_pieces(path, partition), find, line=partition.first_row, limit=limit)
        return repack(_batch_of_block(block, partition, schema, limit, dropped) for block in found)

    return Reading(batches)


def _batch_of_block(
    block: Block, partition: Partition, schema: Schema, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    """The records of a block as a batch with ids from 0, their findings, and their size in bytes."""
    starts = np.concatenate([[0], block.ends[:-1]])
    faults: Faults = {item.index: (item.reason, item.found, "") for item in block.broken}
    if block.oversized:
        faults[0] = (Reason.LINE_TOO_LONG, str(block.oversized), str(limit))
    first = np.frombuffer(block.data, np.uint8)[starts]
    parsed = (first != LF) & (first != CR)  # the parser skips empty lines too
    parsed[list(faults)] = False
    indexes = np.flatnonzero(parsed)
    cells, ragged = _parse(_without_records(block, starts, faults) if faults else block.data, partition)
    for number, count in ragged:
        index = int(indexes[number - 1])
        if block.data[starts[index] : block.ends[index]].strip():
            faults[index] = (Reason.ROW_RAGGED, str(count), str(len(partition.header)))
    if ragged:
        indexes = np.delete(indexes, [number - 1 for number, _ in ragged])
    if len(indexes) != cells.height:
        raise RuntimeError(f"{cells.height} rows parsed of {len(indexes)}")
    cells, indexes = _drop_blank_rows(cells, indexes)
    kept = np.union1d(indexes, np.fromiter(faults, np.int64, len(faults))) if faults else indexes
    dropped["blank"] += len(starts) - len(kept)
    rows = block.line + block.lines[kept]
    batch = Batch(
        partition.source,
        None,
        np.arange(len(rows), dtype=np.int64),
        rows,
        pl.DataFrame(),
        cells,
        decimal=partition.decimal,
        clean=is_clean(block.data),
    )
    if not faults:
        return batch, Findings(), len(block.data)
    unread = ~np.isin(kept, indexes, assume_unique=True)
    raw = _raw_of_unread(block, starts, kept, unread)
    batch = replace(batch, cells=_insert_unread(cells, unread), raw=raw, unread=unread)
    return batch, _findings(faults, kept, schema), len(block.data)


def _parse(data: bytes, partition: Partition) -> tuple[pl.DataFrame, list[tuple[int, int]]]:
    """The cells of the rows, and the ragged rows among them: (number from 1, number of fields)."""
    from pyarrow import csv

    ragged: list[tuple[int, int]] = []

    def set_aside(row: csv.InvalidRow) -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    names = list(partition.header)
    if not data.strip(b"\r\n"):
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String)), ragged
    if data.startswith(b"\xef\xbb\xbf"):
        data = b"\n" + data  # the parser would strip a byte order mark here, which is text inside a file
    if not is_utf8(data):
        raise file_fault(Reason.FILE_CHANGED, partition.source, "bytes that were UTF-8 when it was inspected")
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=partition.delimiter, newlines_in_values=True, invalid_row_handler=set_aside
        ),
        convert_options=csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    return pl.DataFrame(pl.from_arrow(table)), ragged


def _without_records(block: Block, starts: Int64s, faults: Faults) -> bytes:
    """The bytes of the block without its broken records."""
    parts = []
    at = 0
    for index in sorted(faults):
        parts.append(block.data[at : starts[index]])
        at = int(block.ends[index])
    return b"".join([*parts, block.data[at:]])


def _drop_blank_rows(cells: pl.DataFrame, indexes: Int64s) -> tuple[pl.DataFrame, Int64s]:
    """The cells, and the indexes of their records, without blank rows."""
    if not all(column.null_count() for column in cells.get_columns()):
        return cells, indexes
    blank = cells.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    if not blank.any():
        return cells, indexes
    return cells.filter(pl.Series(~blank)), indexes[~blank]


def _insert_unread(cells: pl.DataFrame, unread: Mask) -> pl.DataFrame:
    """The cells with a row of nulls inserted for each unread record."""
    index = pl.Series(np.cumsum(~unread) - 1, dtype=pl.Int64).set(pl.Series(unread), None)
    return cells.select(pl.all().gather(index))


def _raw_of_unread(block: Block, starts: Int64s, kept: Int64s, unread: Mask) -> pa.Array:
    spans = zip(starts[kept].tolist(), block.ends[kept].tolist(), unread.tolist(), strict=True)
    raw = [block.data[start:end].rstrip(b"\r\n") if is_unread else None for start, end, is_unread in spans]
    return pa.array(raw, pa.binary())


def _findings(faults: Faults, kept: Int64s, schema: Schema) -> Findings:
    findings = Findings()
    for reason in dict.fromkeys(item[0] for item in faults.values()):
        indexes = sorted(index for index, item in faults.items() if item[0] is reason)
        findings.add(
            reason,
            schema.policy(reason),
            "",
            np.searchsorted(kept, indexes).astype(np.int64),
            found=[faults[index][1] for index in indexes],
            expected=[faults[index][2] for index in indexes],
        )
    return findings
