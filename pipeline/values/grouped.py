"""Grouped cells: a record is a group of rows, and its cells are lists with one entry a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

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

ROWS = "@rows"
"""Column of grouped cells: physical row of each entry."""
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
        """Lay a list column flat; a null list has no entry."""
        lengths = column.list.len().fill_null(0).cast(int).to_numpy().astype(np.int64)
        return cls(elements(column), lengths)


def list_of_rows(column: pl.Series, reading: FieldPath, decimal: str, report: Report) -> pl.Series:
    """The list of a record's values from its rows; the whole record is null where one of them is wrong.

    ``report`` has the id and row of every entry.
    """
    import polars as pl
    import pyarrow as pa

    flat = GroupedRows.of(column)
    values, bad = _entries(flat.cells, reading, decimal, report)
    owner = np.repeat(np.arange(len(flat.lengths)), flat.lengths)
    lost = np.zeros(len(flat.lengths), bool)
    lost[owner[bad]] = True
    kept = values.filter(pl.Series(~lost[owner])) if lost.any() else values
    offsets = np.concatenate([[0], np.cumsum(np.where(lost, 0, flat.lengths))])
    lists = pa.LargeListArray.from_arrays(
        pa.array(offsets), kept.to_arrow(compat_level=pl.CompatLevel.oldest()),
        mask=pa.array(lost | column.is_null().to_numpy()),
    )  # fmt: skip
    return pl.Series(pl.from_arrow(lists))


def constant_of_rows(column: pl.Series, reading: FieldPath, report: Report) -> pl.Series:
    """The one value that all rows of each record have; null, with a finding, where they disagree.

    A blank disagrees with a value: nothing says that it means the same. ``report`` has the id and row of every entry.
    """
    import polars as pl

    flat = GroupedRows.of(column)
    first = column.list.first()
    owner = np.repeat(np.arange(len(column)), flat.lengths)
    differs = flat.cells.ne_missing(first[pl.Series(owner)])
    if not differs.any():
        return first
    shown = flat.cells.fill_null("blank")
    report(Reason.GROUP_INCONSISTENT, reading.field.name, differs, shown, "the same value in every row")
    lost = np.zeros(len(column), bool)
    lost[owner[differs.to_numpy()]] = True
    return first.set(pl.Series(lost), None)


def _entries(cells: pl.Series, reading: FieldPath, decimal: str, report: Report) -> tuple[pl.Series, Mask]:
    """Typed entries, and the wrong ones among them."""
    field = reading.field
    kind = reading.type.kind
    blank = cells.is_null()
    if kind is Kind.WORDS:
        return cells.fill_null(""), np.zeros(
            len(cells), bool
        )  # a blank word is dropped with its box and label
    if kind is Kind.BOXES and reading.part < 0:
        return _boxes(cells, reading, report)
    if kind is Kind.LABELS and not reading.type.ids:
        report(field.wrong, field.name, blank, "blank", "a label")
        return cells, blank.to_numpy()
    item = FieldType(Kind.NUMBER) if reading.part >= 0 else replace(_item(reading.type), optional=False)
    wrong = Reason.BBOX_NOT_FINITE if reading.part >= 0 else field.wrong
    if item.kind is not Kind.TEXT:  # the grammar takes white space for no value, and says nothing of it
        blank = blank | (cells.str.strip_chars(BLANKS) == "").fill_null(False)
    report(wrong, field.name, blank, "blank", item.kind.value)
    if item.kind is Kind.TEXT:
        return cells, blank.to_numpy()
    values = parse_scalars(cells, item, decimal, field.name, wrong, report)
    return values, values.is_null().to_numpy()


def _boxes(cells: pl.Series, reading: FieldPath, report: Report) -> tuple[pl.Series, Mask]:
    """One box a cell, written as JSON; each is read as a list with one box, so that a cell cannot hold two."""
    import polars as pl
    import pyarrow as pa

    field = reading.field
    blank = (cells.str.strip_chars() == "").fill_null(True)
    report(Reason.BBOX_UNPARSED, field.name, blank, "blank", "a box")
    there = ~blank.to_numpy()
    hits = FindingCollector(report.policy)
    decoder = Decoder(
        [replace(reading, steps=())], report.policy, BOX_DEPTH, cell=True, broken=Reason.BBOX_UNPARSED
    )
    listed = ("[" + cells.filter(~blank) + "]").to_arrow(compat_level=pl.CompatLevel.oldest())
    lists = scatter(decoder(listed.cast(pa.binary()), np.flatnonzero(there), hits)[0], there)
    rows = report.rows
    for item in hits.findings().items:
        paths = "" if rows is None else [f"row {row}" for row in rows[item.ids].tolist()]
        report.findings.add(
            item.reason, item.policy, item.column, report.ids[item.ids],
            paths=paths, found=item.found, expected=item.expected,
        )  # fmt: skip
    several = (lists.list.len() != 1).fill_null(False)
    report(Reason.BBOX_UNPARSED, field.name, several, cells, "one box")
    boxes = lists.set(several, None).list.first()
    return boxes, boxes.is_null().to_numpy()


def _item(type_: FieldType) -> FieldType:
    if type_.kind in (Kind.LABELS, Kind.TOKENS):
        return FieldType(Kind.INTEGER)
    return type_.item or FieldType(Kind.TEXT)
