"""Grouped cells: a record is a group of rows, and its cells are lists with one entry a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.arrow_lists import elements, scatter
from pipeline.batch import Int64s, Mask
from pipeline.fields import FieldType, Kind
from pipeline.findings import FindingCollector
from pipeline.reasons import Reason
from pipeline.values.json_decode import Decoder
from pipeline.values.parse_text import BLANKS, Report, parse_scalars
from pipeline.values.paths import FieldPath

if TYPE_CHECKING:
    import polars as pl

ROWS_COLUMN = "@rows"
"""Name of the column of grouped cells that holds the physical row of each entry."""
BOX_DEPTH = 8
"""Deepest nesting of a cell with one box: a list of objects with x and y has 2."""


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """The entries of a list column, one after the other.

    Attributes:
        cells: String, the entries (null: blank).
        lengths: int64 [n], entries of each record.
    """

    cells: pl.Series
    lengths: Int64s

    @classmethod
    def of(cls, column: pl.Series) -> GroupedRows:
        """The entries of a list column; a null list has none."""
        lengths = column.list.len().fill_null(0).cast(int).to_numpy().astype(np.int64)
        return cls(elements(column), lengths)


def list_of_rows(column: pl.Series, field_path: FieldPath, decimal: str, report: Report) -> pl.Series:
    """The values of a record's rows as one list; null for a record with a wrong entry.

    ``report`` has the id and row of every entry.
    """
    import polars as pl

    entries = GroupedRows.of(column)
    values, bad = _parse_entries(entries.cells, field_path, decimal, report)
    owner = np.repeat(np.arange(len(entries.lengths)), entries.lengths)
    lost = np.zeros(len(entries.lengths), bool)
    lost[owner[bad]] = True
    kept = values.filter(pl.Series(~lost[owner])) if lost.any() else values
    offsets = np.concatenate([[0], np.cumsum(np.where(lost, 0, entries.lengths))])
    lists = pa.LargeListArray.from_arrays(
        pa.array(offsets),
        kept.to_arrow(compat_level=pl.CompatLevel.oldest()),
        mask=pa.array(lost | column.is_null().to_numpy()),
    )
    return pl.Series(pl.from_arrow(lists))


def constant_of_rows(column: pl.Series, field_path: FieldPath, report: Report) -> pl.Series:
    """The value that all rows of a record share; null, with a finding, where they differ.

    A blank cell differs from a value: nothing proves that it means the same.
    ``report`` has the id and row of every entry.
    """
    import polars as pl

    entries = GroupedRows.of(column)
    first = column.list.first()
    owner = np.repeat(np.arange(len(column)), entries.lengths)
    differs = entries.cells.ne_missing(first[pl.Series(owner)])
    if not differs.any():
        return first
    shown = entries.cells.fill_null("blank")
    report(Reason.GROUP_INCONSISTENT, field_path.field.name, differs, shown, "the same value in every row")
    lost = np.zeros(len(column), bool)
    lost[owner[differs.to_numpy()]] = True
    return first.set(pl.Series(lost), None)


def _parse_entries(
    cells: pl.Series, field_path: FieldPath, decimal: str, report: Report
) -> tuple[pl.Series, Mask]:
    """Parse the entries; returns the values and which entries are wrong (bool [entries])."""
    field = field_path.field
    kind = field_path.type.kind
    blank = cells.is_null()
    if kind is Kind.WORDS:
        return cells.fill_null(""), np.zeros(
            len(cells), bool
        )  # a later stage drops a blank word with its box and label
    if kind is Kind.BOXES and field_path.part < 0:
        return _parse_boxes(cells, field_path, report)
    if kind is Kind.LABELS and not field_path.type.ids:
        report(field.wrong, field.name, blank, "blank", "a label")
        return cells, blank.to_numpy()
    item = (
        FieldType(Kind.NUMBER)
        if field_path.part >= 0
        else replace(_entry_type(field_path.type), optional=False)
    )
    wrong = Reason.BBOX_NOT_FINITE if field_path.part >= 0 else field.wrong
    if item.kind is not Kind.TEXT:  # the grammar takes white space as blank and reports nothing
        blank = blank | (cells.str.strip_chars(BLANKS) == "").fill_null(False)
    report(wrong, field.name, blank, "blank", item.kind.value)
    if item.kind is Kind.TEXT:
        return cells, blank.to_numpy()
    values = parse_scalars(cells, item, decimal, field.name, wrong, report)
    return values, values.is_null().to_numpy()


def _parse_boxes(cells: pl.Series, field_path: FieldPath, report: Report) -> tuple[pl.Series, Mask]:
    """Parse cells with one box each, written as JSON. Each is decoded as a list, which must hold exactly one box."""
    import polars as pl

    field = field_path.field
    blank = (cells.str.strip_chars() == "").fill_null(True)
    report(Reason.BBOX_UNPARSED, field.name, blank, "blank", "a box")
    filled = ~blank.to_numpy()
    collector = FindingCollector(report.policy)
    decoder = Decoder(
        [replace(field_path, steps=())], report.policy, BOX_DEPTH, cell=True, broken=Reason.BBOX_UNPARSED
    )
    texts = ("[" + cells.filter(~blank) + "]").to_arrow(compat_level=pl.CompatLevel.oldest())
    lists = scatter(decoder(texts.cast(pa.binary()), np.flatnonzero(filled), collector)[0], filled)
    rows = report.rows
    for item in collector.findings().items:
        paths = "" if rows is None else [f"row {row}" for row in rows[item.ids].tolist()]
        report.findings.add(
            item.reason,
            item.policy,
            item.column,
            report.ids[item.ids],
            paths=paths,
            found=item.found,
            expected=item.expected,
        )
    several = (lists.list.len() != 1).fill_null(False)
    report(Reason.BBOX_UNPARSED, field.name, several, cells, "one box")
    boxes = lists.set(several, None).list.first()
    return boxes, boxes.is_null().to_numpy()


def _entry_type(type_: FieldType) -> FieldType:
    if type_.kind in (Kind.LABELS, Kind.TOKENS):
        return FieldType(Kind.INTEGER)
    return type_.item or FieldType(Kind.TEXT)
