"""Cast: whatever a reader yields becomes exactly the columns of the schema's fields, in their types.

Cells go through the cell grammar, JSON through the decoder, Arrow columns through their types. A value that does not
fit becomes null and a finding; records that could not be read keep their one finding and get no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.cells import boxes, frames, grammar, table
from pipeline.cells.convert import EXPECTED
from pipeline.cells.decoder import Decoder
from pipeline.cells.groups import ROWS, constant, grouped
from pipeline.cells.hits import Hits
from pipeline.cells.leaves import holds, mapped
from pipeline.cells.reads import Reading, readings
from pipeline.cells.spread import scatter
from pipeline.cells.table import Report
from pipeline.errors import SchemaError
from pipeline.fields import Field, FieldType, Kind
from pipeline.schema.model import Schema
from pipeline.stages.texts import look

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class Cast:
    """The stage. Raises ``SchemaError`` when a field's path cannot be read as the field's type."""

    schema: Schema
    fields: Sequence[Field]
    name: str = "cast"
    _readings: tuple[Reading, ...] = field(init=False)
    _decoder: Decoder = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._readings = readings(self.fields)
        except ValueError as error:
            raise SchemaError(str(error), where=self.schema.name) from None
        self._decoder = Decoder(self._readings, self.schema.policy, self.schema.read.limits.depth)

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        """The batch with its typed frame; what the reader handed over stays as it is."""
        import polars as pl

        hits = Hits(self.schema.policy)
        report = Report(Findings(), self.schema.policy, batch.ids)
        unread = np.zeros(len(batch), bool) if batch.unread is None else batch.unread
        if batch.cells is not None:
            columns = self._table(batch, batch.cells, unread, hits, report)
        elif batch.columns is not None:
            columns = [self._frame(r, batch.columns, hits, report) for r in self._readings]
        else:
            columns = self._json(batch, unread, hits)
        frame = pl.DataFrame([self._field(i, columns, report) for i in range(len(self.fields))])
        if not batch.sound:
            frame = look(frame, self.fields, self.schema, report)
        findings = hits.findings()
        findings.extend(report.findings)
        return batch.with_frame(frame), findings

    # ── where the values come from ───────────────────────────────────────────────────────────────────────
    def _json(self, batch: Batch, unread: Mask, hits: Hits) -> list[pl.Series]:
        import pyarrow as pa

        assert batch.raw is not None  # noqa: S101
        raw = batch.raw.filter(pa.array(~unread)) if unread.any() else batch.raw
        columns = self._decoder(raw, batch.ids[~unread], hits)
        return [scatter(column, ~unread) for column in columns] if unread.any() else columns

    def _table(
        self, batch: Batch, cells: pl.DataFrame, unread: Mask, hits: Hits, report: Report
    ) -> list[pl.Series]:
        plain = table.plain(cells, self._readings, batch.decimal)
        return [
            self._cells(reading, batch, cells, unread, hits, report) if column is None else column
            for reading, column in zip(self._readings, plain, strict=True)
        ]

    def _cells(
        self, reading: Reading, batch: Batch, cells: pl.DataFrame, unread: Mask, hits: Hits, report: Report
    ) -> pl.Series:
        import polars as pl

        name = reading.steps[0].key
        none = pl.Series(name, [None], pl.String).new_from_index(0, len(batch))
        column = cells.get_column(name) if name in cells.columns else none
        if column.dtype.is_nested():
            lengths = cells[ROWS].list.len().fill_null(0).to_numpy()
            rows = cells[ROWS].explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.int64)
            entries = replace(report, ids=np.repeat(batch.ids, lengths), rows=rows)
            if reading.field.grouped:
                return grouped(column, reading, batch.decimal, entries)
            before = len(report.findings.items)
            column = constant(column, reading, entries)
            for item in report.findings.items[before:]:
                unread = unread | np.isin(batch.ids, item.ids)
        kind = reading.type.kind
        if kind is Kind.TEXT and len(reading.steps) == 1:
            self._missing(reading, column.is_null(), unread, "blank", report)
            return column
        blank = (column.str.strip_chars(grammar.BLANKS) == "").fill_null(True)
        self._missing(reading, blank, unread, "blank", report)
        if kind in table.SCALARS and len(reading.steps) == 1:
            return table.scalars(
                column, reading.type, batch.decimal, reading.field.name, reading.field.wrong, report
            )
        return table.json(column, reading, self.schema.read.limits.depth, hits, report)

    def _frame(self, reading: Reading, frame: pl.DataFrame, hits: Hits, report: Report) -> pl.Series:
        import polars as pl

        name = reading.steps[0].key
        if name not in frame.columns:
            column = pl.Series(name, [None], reading.type.dtype()).new_from_index(0, len(report.ids))
        else:
            column = frame.get_column(name)
        self._missing(reading, column.is_null(), np.zeros(len(column), bool), "null", report)
        if name not in frame.columns:
            return column
        return frames.typed(column, reading, self.schema.read.limits.depth, hits, report)

    def _missing(self, reading: Reading, blank: pl.Series, unread: Mask, what: str, report: Report) -> None:
        if reading.field.required:
            mask = blank.to_numpy() & ~unread
            report(reading.field.missing, reading.field.name, mask, what, EXPECTED[reading.type.kind])

    # ── fields ───────────────────────────────────────────────────────────────────────────────────────────
    def _field(self, index: int, columns: list[pl.Series], report: Report) -> pl.Series:
        """The column of a field, from the values of its readings, with its dates brought to one form."""
        field_ = self.fields[index]
        parts = [c for c, r in zip(columns, self._readings, strict=True) if r.index == index]
        column = parts[0]
        if isinstance(field_.path, tuple) and len(field_.path) > 1:
            column, uneven = boxes.joined(parts)
            report(field_.missing, field_.name, uneven, "columns of different lengths", "one number a word")
        dates = (Kind.DATE, Kind.DATETIME)
        if holds(field_.type, dates):
            column = mapped(column, field_.type, dates, _Dates(field_, report))
        if column.dtype != (dtype := field_.type.dtype()):
            column = column.cast(dtype)
        return column.alias(field_.name)


@dataclass(frozen=True, slots=True)
class _Dates:
    """Brings dates to ISO 8601, wherever they stand in a field."""

    field: Field
    report: Report

    def __call__(self, texts: pl.Series, type_: FieldType, owners: Int64s) -> pl.Series:
        parsed = grammar.parse(texts, type_.kind)
        at = replace(self.report, ids=self.report.ids[owners])
        at(self.field.wrong, self.field.name, parsed.wrong, texts, EXPECTED[type_.kind])
        whole = type_ is self.field.type
        if self.field.required if whole else not type_.optional:  # blank cells of a table are null by now
            blank = texts.is_not_null() & parsed.values.is_null() & ~parsed.wrong
            reason = self.field.missing if whole else self.field.wrong
            at(reason, self.field.name, blank, "blank", EXPECTED[type_.kind])
        return parsed.values
