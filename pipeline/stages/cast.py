"""Cast: whatever a reader yields becomes exactly the columns of the schema's fields, in their types.

Turns of chats have a judge of their own (``stages/chat/content.py``), and so have invalid characters in words
(``stages/layout/words.py``).

Cells go through the cell grammar, JSON through the decoder, Arrow columns through their types. A value that does not
fit becomes null and a finding; records that could not be read keep their one finding and get no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.arrow_lists import scatter
from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.errors import SchemaError
from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FindingCollector, clip
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.values import arrow_cast, parse_text, text_checks
from pipeline.values.grouped import ROWS_COLUMN, constant_of_rows, list_of_rows
from pipeline.values.json_convert import EXPECTED
from pipeline.values.json_decode import Decoder
from pipeline.values.parse_text import Report
from pipeline.values.paths import FieldPath, field_paths, holds_kind, map_nested
from pipeline.values.text_checks import DOUBLE_ENCODED, repair_mojibake

if TYPE_CHECKING:
    import polars as pl


# Boxes from several columns: one column a coordinate, joined to one list a word.


def join_coordinates(parts: Sequence[pl.Series]) -> tuple[pl.Series, Mask]:
    """List(List(Float64)) from List(Float64) columns, one a coordinate; null where a part is null.

    Also says which records have parts of different lengths (bool [n]): they are null, too.
    """
    import polars as pl

    lengths = [part.list.len().fill_null(0).to_numpy().astype(np.int64) for part in parts]
    whole = np.logical_and.reduce([part.is_not_null().to_numpy() for part in parts])
    uneven = whole & np.logical_or.reduce([length != lengths[0] for length in lengths])
    keep = whole & ~uneven
    flat = [
        part.filter(pl.Series(keep)).explode(empty_as_null=False, keep_nulls=False).to_numpy()
        for part in parts
    ]
    numbers = np.stack(flat, axis=1).reshape(-1) if flat else np.empty(0)
    count = len(numbers) // max(len(parts), 1)
    inner = pa.LargeListArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int64) * len(parts)), pa.array(numbers)
    )
    offsets = np.concatenate([[0], np.cumsum(np.where(keep, lengths[0], 0))])
    boxes = pa.LargeListArray.from_arrays(pa.array(offsets), inner, mask=pa.array(~keep))
    return pl.Series(pl.from_arrow(boxes)), uneven


# What is looked for in every text of a record's columns: NUL, U+FFFD, and text that was encoded twice.


def check_texts(frame: pl.DataFrame, fields: Sequence[Field], schema: Schema, report: Report) -> pl.DataFrame:
    """The frame with the repairs that the schema allows; everything found is reported."""
    import polars as pl

    mine = [f for f in fields if _is_mine(f)]
    flat = [f.name for f in mine if f.type.kind is Kind.TEXT]
    suspects = {f.name for f in mine} - set(flat)
    if flat:
        # One pass says for most batches that there is nothing to look at more closely.
        checks = [pl.col(n).str.len_bytes().sum().ne(pl.col(n).str.len_chars().sum()).alias(n) for n in flat]
        zeros = [pl.col(n).str.contains("\0", literal=True).any().alias(f"{n}\0") for n in flat]
        row = frame.select(*checks, *zeros).row(0, named=True)
        suspects |= {n for n in flat if row[n] or row[f"{n}\0"]}
    columns = [
        map_nested(frame.get_column(f.name), f.type, (Kind.TEXT,), _TextCheck(f, schema, report)).alias(
            f.name
        )
        for f in mine
        if f.name in suspects
    ]
    return frame.with_columns(columns) if columns else frame


def _is_mine(field: Field) -> bool:
    if field.name.startswith("@"):
        return field.type.kind is Kind.WORDS
    return holds_kind(field.type, (Kind.TEXT,))


@dataclass(frozen=True, slots=True)
class _TextCheck:
    """Looks at the texts of one field, wherever they stand in it."""

    field: Field
    schema: Schema
    report: Report

    def __call__(self, texts: pl.Series, type_: FieldType, owners: Int64s) -> pl.Series:
        import polars as pl

        special = (texts.str.len_bytes() != texts.str.len_chars()) | texts.str.contains("\0", literal=True)
        places = np.flatnonzero(special.fill_null(False).to_numpy())
        if not len(places):
            return texts
        few, theirs = texts[pl.Series(places)], owners[places]
        after = few
        if self.field.type.kind is not Kind.WORDS:
            after = self._invalid(after, theirs)
        after = self._twice_encoded(after, theirs)
        return texts if after is few else texts.clone().scatter(pl.Series(places), after)

    def _invalid(self, texts: pl.Series, owners: Int64s) -> pl.Series:
        import polars as pl

        places = np.flatnonzero(text_checks.is_invalid(texts).to_numpy())
        if not len(places):
            return texts
        shown = [text_checks.describe_invalid(t) for t in texts[pl.Series(places)].to_list()]
        policy = self._report(Reason.TEXT_INVALID_UNICODE, owners[places], shown)
        return texts.str.replace_all("\0", "", literal=True) if policy is Policy.REPAIR else texts

    def _twice_encoded(self, texts: pl.Series, owners: Int64s) -> pl.Series:
        import polars as pl

        places = np.flatnonzero(texts.str.contains(DOUBLE_ENCODED).to_numpy())
        found = zip(places.tolist(), texts[pl.Series(places)].to_list(), strict=True)
        proven = {place: pair for place, value in found if (pair := repair_mojibake(value)) is not None}
        if not proven:
            return texts
        at = np.array(list(proven), np.int64)
        shown = [clip(run) for _, run in proven.values()]
        policy = self._report(Reason.MOJIBAKE_SUSPECTED, owners[at], shown)
        if policy is not Policy.REPAIR:
            return texts
        return texts.clone().scatter(
            pl.Series(at), pl.Series([fixed for fixed, _ in proven.values()], dtype=pl.String)
        )

    def _report(self, reason: Reason, owners: Int64s, shown: list[str]) -> Policy:
        policy = self.schema.policy(reason)
        self.report.findings.add(reason, policy, self.field.name, self.report.ids[owners], found=shown)
        return policy


# Cast: whatever a reader yields becomes exactly the columns of the schema's fields, in their types.


@dataclass(slots=True)
class Cast:
    """The stage. Raises ``SchemaError`` when a field's path cannot be read as the field's type."""

    schema: Schema
    fields: Sequence[Field]
    name: str = "cast"
    _readings: tuple[FieldPath, ...] = field(init=False)
    _decoder: Decoder = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._readings = field_paths(self.fields)
        except ValueError as error:
            raise SchemaError(str(error), where=self.schema.name) from None
        self._decoder = Decoder(self._readings, self.schema.policy, self.schema.read.limits.depth)

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        """The batch with its typed frame; what the reader handed over stays as it is."""
        import polars as pl

        collector = FindingCollector(self.schema.policy)
        report = Report(Findings(), self.schema.policy, batch.ids)
        unread = np.zeros(len(batch), bool) if batch.unread is None else batch.unread
        if batch.cells is not None:
            columns = self._table(batch, batch.cells, unread, collector, report)
        elif batch.columns is not None:
            columns = [self._frame(r, batch.columns, collector, report) for r in self._readings]
        else:
            columns = self._json(batch, unread, collector)
        frame = pl.DataFrame([self._field(i, columns, report) for i in range(len(self.fields))])
        if not batch.clean:
            frame = check_texts(frame, self.fields, self.schema, report)
        findings = collector.findings()
        findings.extend(report.findings)
        return batch.with_frame(frame), findings

    # ── where the values come from ───────────────────────────────────────────────────────────────────────
    def _json(self, batch: Batch, unread: Mask, collector: FindingCollector) -> list[pl.Series]:
        assert batch.raw is not None  # noqa: S101
        raw = batch.raw.filter(pa.array(~unread)) if unread.any() else batch.raw
        columns = self._decoder(raw, batch.ids[~unread], collector)
        return [scatter(column, ~unread) for column in columns] if unread.any() else columns

    def _table(
        self, batch: Batch, cells: pl.DataFrame, unread: Mask, collector: FindingCollector, report: Report
    ) -> list[pl.Series]:
        plain = parse_text.parse_plain_columns(cells, self._readings, batch.decimal)
        return [
            self._cells(field_path, batch, cells, unread, collector, report) if column is None else column
            for field_path, column in zip(self._readings, plain, strict=True)
        ]

    def _cells(
        self,
        field_path: FieldPath,
        batch: Batch,
        cells: pl.DataFrame,
        unread: Mask,
        collector: FindingCollector,
        report: Report,
    ) -> pl.Series:
        import polars as pl

        name = field_path.steps[0].key
        none = pl.Series(name, [None], pl.String).new_from_index(0, len(batch))
        column = cells.get_column(name) if name in cells.columns else none
        if column.dtype.is_nested():
            lengths = cells[ROWS_COLUMN].list.len().fill_null(0).to_numpy()
            rows = (
                cells[ROWS_COLUMN].explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.int64)
            )
            entries = replace(report, ids=np.repeat(batch.ids, lengths), rows=rows)
            if field_path.field.grouped:
                return list_of_rows(column, field_path, batch.decimal, entries)
            before = len(report.findings.items)
            column = constant_of_rows(column, field_path, entries)
            for item in report.findings.items[before:]:
                unread = unread | np.isin(batch.ids, item.ids)
        kind = field_path.type.kind
        if kind is Kind.TEXT and len(field_path.steps) == 1:
            self._missing(field_path, column.is_null(), unread, "blank", report)
            return column
        blank = (column.str.strip_chars(parse_text.BLANKS) == "").fill_null(True)
        self._missing(field_path, blank, unread, "blank", report)
        if kind in parse_text.SCALARS and len(field_path.steps) == 1:
            return parse_text.parse_scalars(
                column, field_path.type, batch.decimal, field_path.field.name, field_path.field.wrong, report
            )
        return parse_text.parse_json_cells(
            column, field_path, self.schema.read.limits.depth, collector, report
        )

    def _frame(
        self, field_path: FieldPath, frame: pl.DataFrame, collector: FindingCollector, report: Report
    ) -> pl.Series:
        import polars as pl

        name = field_path.steps[0].key
        if name not in frame.columns:
            column = pl.Series(name, [None], field_path.type.dtype()).new_from_index(0, len(report.ids))
        else:
            column = frame.get_column(name)
        self._missing(field_path, column.is_null(), np.zeros(len(column), bool), "null", report)
        if name not in frame.columns:
            return column
        return arrow_cast.cast_arrow(column, field_path, self.schema.read.limits.depth, collector, report)

    def _missing(
        self, field_path: FieldPath, blank: pl.Series, unread: Mask, what: str, report: Report
    ) -> None:
        if field_path.field.required:
            mask = blank.to_numpy() & ~unread
            report(
                field_path.field.missing, field_path.field.name, mask, what, EXPECTED[field_path.type.kind]
            )

    # ── fields ───────────────────────────────────────────────────────────────────────────────────────────
    def _field(self, index: int, columns: list[pl.Series], report: Report) -> pl.Series:
        """The column of a field, from the values of its readings, with its dates brought to one form."""
        field_ = self.fields[index]
        parts = [c for c, r in zip(columns, self._readings, strict=True) if r.index == index]
        column = parts[0]
        if isinstance(field_.path, tuple) and len(field_.path) > 1:
            column, uneven = join_coordinates(parts)
            report(field_.missing, field_.name, uneven, "columns of different lengths", "one number a word")
        dates = (Kind.DATE, Kind.DATETIME)
        if holds_kind(field_.type, dates):
            column = map_nested(column, field_.type, dates, _Dates(field_, report))
        if column.dtype != (dtype := field_.type.dtype()):
            column = column.cast(dtype)
        return column.alias(field_.name)


@dataclass(frozen=True, slots=True)
class _Dates:
    """Brings dates to ISO 8601, wherever they stand in a field."""

    field: Field
    report: Report

    def __call__(self, texts: pl.Series, type_: FieldType, owners: Int64s) -> pl.Series:
        parsed = parse_text.parse_cells(texts, type_.kind)
        at = replace(self.report, ids=self.report.ids[owners])
        at(self.field.wrong, self.field.name, parsed.wrong, texts, EXPECTED[type_.kind])
        whole = type_ is self.field.type
        if self.field.required if whole else not type_.optional:  # blank cells of a table are null by now
            blank = texts.is_not_null() & parsed.values.is_null() & ~parsed.wrong
            reason = self.field.missing if whole else self.field.wrong
            at(reason, self.field.name, blank, "blank", EXPECTED[type_.kind])
        return parsed.values
