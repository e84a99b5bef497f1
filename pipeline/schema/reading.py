"""The ``read:`` section: how the bytes of a claimed file become records."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Is

from pipeline.schema.columns import Strict
from pipeline.schema.reshape import Step


class Limits(Strict):
    """What one file may cost to read. A file that needs more is one file-level error, never a hang."""

    file_mb: Annotated[int, Is(gt=0)] = 4096
    """Largest file."""
    record_mb: Annotated[int, Is(gt=0)] = 32
    """Largest single line or JSON value."""
    depth: Annotated[int, Is(gt=0, le=500)] = 64
    """Deepest nesting of a JSON record."""
    workbook_seconds: Annotated[int, Is(gt=0)] = 120
    """Longest time to parse one workbook."""
    workbook_memory_mb: Annotated[int, Is(gt=0)] = 4096
    """Most memory to parse one workbook."""
    workbook_cells: Annotated[int, Is(gt=0)] = 100_000_000
    """Most cells of one sheet, blank ones counted."""


class LineFormat(Strict):
    """Lines split at the first separators only: the last field takes the rest of the line."""

    separator: Annotated[str, Is(min_length=1, max_length=4)]
    """Text between two fields."""
    fields: Annotated[tuple[str, ...], Is(min_length=1)]
    """Names of the fields, in order. They serve as the column names."""
    rest: bool = False
    """Whether the last field may hold the separator (SROIE: eight numbers, then free text)."""


class GroupBy(Strict):
    """Rows that belong to one document become one record."""

    key: str | None = None
    """Column whose equal values make a group; null: every row of the file (or sheet) is one group."""
    order: str | None = None
    """Column of whole numbers that gives the order within a group; default: the order of the file."""


class SheetPattern(Strict):
    """All visible sheets whose name matches a regular expression."""

    pattern: str


class Read(Strict):
    """How files of this schema are read. Nothing is guessed: what is not declared must be proven by the file."""

    format: Literal["auto", "csv", "tsv", "excel", "json", "jsonl", "parquet", "arrow", "lines", "markup"] = (
        "auto"
    )
    """``auto`` goes by the file's name; ``lines`` uses ``line_format``; ``markup`` is XML or HTML, for ``reshape``."""
    encodings: tuple[str, ...] = ()
    """Encodings tried in order after a byte order mark and strict UTF-8."""
    delimiter: Literal["auto"] | Annotated[str, Is(min_length=1, max_length=1)] = "auto"
    """``auto``: the one of , ; tab | whose header holds the expected columns."""
    decimal: Literal[".", ",", "auto"] = "."
    """Decimal mark of number columns; ``auto`` takes a comma only where the delimiter is not a comma."""
    header: Literal["first", "find", "none"] | Annotated[int, Is(ge=1)] = "first"
    """Row of the column names: the first row that is not blank, the first that holds the expected columns
    (searched in the first 50 rows), none (columns are then ``1``, ``2``, …), or its number."""
    sheets: Literal["first_visible", "visible"] | tuple[str | int, ...] | SheetPattern = "first_visible"
    """Sheets of a workbook: by name or by index from 0."""
    merged: Literal["anchor", "fill"] = "anchor"
    """Whether a merged area has its value in its first cell only, or in each of its cells."""
    line_format: LineFormat | None = None
    group_by: GroupBy | None = None
    records_at: str | None = None
    """JSON path of the list of records inside a .json document, e.g. ``$.data``; default: the document itself,
    a list of records, one record, or lines."""
    reshape: tuple[Step, ...] = ()
    """Steps that make records of nested documents."""
    limits: Limits = Limits()
