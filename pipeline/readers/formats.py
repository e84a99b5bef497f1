"""Formats and partitions: the contract of every reader, and the unit that it reads.

A partition is one file, one sheet or one range of a large file, with everything that inspection proved about it. It is
plain data (text, numbers, tuples), so that it travels to worker processes, and into cache keys, as JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from pipeline.batch import Batch, Findings
from pipeline.findings import FileNote, file_fault
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema

RANGE_BYTES = 64 * 2**20
"""Bytes of a range of a large file. A constant, so that ranges, and therefore shards, are equal on any machine."""

BATCH_ROWS = 10_000
BATCH_BYTES = 32 * 2**20
"""A batch ends at the row limit or the byte limit, whichever comes first."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One unit of reading.

    Attributes:
        source: path of the file relative to the raw folder, with forward slashes.
        schema_index: the schema that claims it.
        format: csv, lines, jsonl, json, reshaped, excel, parquet or arrow, as inspection proves it.
        order: rank within the file, from 0; records of a lower rank come first.
        sheet: sheet of a workbook.
        start, end: the range to read: bytes of a text file, rows of a Parquet file; ``end`` 0 means to the end.
        first_row: physical line (or sheet row, or row) at ``start``; for tables without a range, the first row
            below the header.
        header: column names, made unique, in the order of the file.
        encoding: Python codec of the bytes, proven.
        delimiter: of a delimited text file.
        decimal: decimal mark of its numbers: ``.``, ``,`` or ``.,`` for either.
        form: of a JSON document: ``array`` or ``object``.
        grouping: how the rows of a grouped table are read: ``runs`` or ``gather`` (see ``grouped_rows``); else empty.
        share, shares: which part of the group keys this partition gathers, and the number of parts.
    """

    source: str
    schema_index: int
    format: str
    order: int = 0
    sheet: str | None = None
    start: int = 0
    end: int = 0
    first_row: int = 1
    header: tuple[str, ...] = ()
    encoding: str = "utf-8"
    delimiter: str = ""
    decimal: str = "."
    form: str = ""
    grouping: str = ""
    share: int = 0
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Inspection:
    """What inspection proves about one file before any record is read."""

    partitions: tuple[Partition, ...]
    notes: tuple[FileNote, ...] = ()


class Reading:
    """The batches of one partition, read lazily.

    ``dropped`` counts the rows that are not records, by name (``blank``); it is complete after the iteration.
    Rows read = records of all batches + dropped.
    """

    def __init__(self, batches: Callable[[Counter[str]], Iterator[tuple[Batch, Findings]]]) -> None:
        self.dropped: Counter[str] = Counter()
        self._batches = batches(self.dropped)

    def __iter__(self) -> Iterator[tuple[Batch, Findings]]:
        return self._batches


class Reader(Protocol):
    """The contract of the module of each format."""

    def inspect(self, claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection: ...

    def read(self, partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading: ...


READERS = {
    "csv": "csv",
    "tsv": "csv",
    "lines": "split_lines",
    "jsonl": "jsonl",
    "json": "json_list",
    "excel": "excel",
    "parquet": "parquet",
    "arrow": "parquet",
    "markup": "nested_files",
    "reshaped": "nested_files",
}
"""Module of the reader of each format."""


def load_reader(format_: str, source: str) -> Reader:
    """The reader of a format, imported on first use. Raises ``FileFault`` for an unknown format."""
    if format_ not in READERS:
        raise file_fault(Reason.FILE_UNREADABLE, source, f"the format {format_!r}", ", ".join(READERS))
    return cast("Reader", import_module(f"pipeline.readers.{READERS[format_]}"))
