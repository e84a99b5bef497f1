"""Columns of Parquet and Arrow files become the values of a field.

A column whose type fits the field is cast. Nested columns, and text that holds JSON, go through the JSON decoder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.arrow_lists import scatter
from pipeline.fields import Kind
from pipeline.findings import FindingCollector
from pipeline.reasons import Reason
from pipeline.values import parse_text
from pipeline.values.json_convert import AS_SHOWN, EXPECTED
from pipeline.values.json_decode import Decoder
from pipeline.values.parse_text import Report
from pipeline.values.paths import FieldPath, Step

if TYPE_CHECKING:
    import polars as pl

DAY, MOMENT = "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"


def cast_arrow(
    column: pl.Series, field_path: FieldPath, depth: int, collector: FindingCollector, report: Report
) -> pl.Series:
    """Cast a column of the file's own type; null, with a finding, where a value does not fit the field."""
    import polars as pl

    dtype = column.dtype
    if dtype in (pl.Categorical, pl.Enum):
        column, dtype = column.cast(pl.String), pl.String()
    kind = field_path.type.kind
    plain = len(field_path.steps) == 1 and not field_path.steps[0].lists
    if (
        dtype == field_path.type.dtype()
        and plain
        and not dtype.is_nested()
        and kind not in (Kind.DATE, Kind.DATETIME)
    ):
        return _without_infinite(column, field_path, report) if kind is Kind.NUMBER else column
    if plain and kind in (Kind.TEXT, *parse_text.SCALARS):
        return _cast_scalar(column, field_path, report)
    if dtype == pl.String:
        return parse_text.parse_json_cells(column, field_path, depth, collector, report)
    return _through_json(column, field_path, depth, collector, report)


def _cast_scalar(column: pl.Series, field_path: FieldPath, report: Report) -> pl.Series:
    import polars as pl

    dtype, field, kind = column.dtype, field_path.field, field_path.type.kind
    number = dtype.is_numeric() or dtype == pl.Boolean
    if (
        kind is Kind.TEXT
        and number
        and field.as_shown
        and not (dtype == pl.Boolean and field.wrong in AS_SHOWN)
    ):
        shown = column.cast(pl.String)
        report(
            AS_SHOWN.get(field.wrong, Reason.VALUE_AS_SHOWN), field.name, shown.is_not_null(), shown, "text"
        )
        return shown
    if kind is Kind.INTEGER and dtype.is_numeric():
        return _cast_integers(column, field_path, report)
    if kind is Kind.NUMBER and dtype.is_numeric():
        return _without_infinite(column.cast(pl.Float64), field_path, report)
    if kind is Kind.DATE and dtype.is_temporal():
        days = column.cast(pl.Datetime("us")) if dtype != pl.Time else None
        if days is not None:
            wrong = (days != days.dt.truncate("1d")).fill_null(False)
            report(field.wrong, field.name, wrong, days.dt.to_string(), EXPECTED[kind])
            return days.dt.strftime(DAY).set(wrong, None)
    if kind is Kind.DATETIME and dtype in (pl.Date, pl.Datetime):
        zone = getattr(dtype, "time_zone", None)
        return column.cast(pl.Datetime("us", zone)).dt.strftime(MOMENT + ("%:z" if zone else ""))
    if kind in (Kind.DATE, Kind.DATETIME) and dtype == pl.String:
        return column  # the cast stage parses dates of all sources together
    return _all_wrong(column, field_path, report)


def _cast_integers(column: pl.Series, field_path: FieldPath, report: Report) -> pl.Series:
    import polars as pl

    field = field_path.field
    values = column.cast(pl.Int64, strict=False)
    if column.dtype.is_integer():
        wrong = values.is_null() & column.is_not_null()
        report(Reason.JSON_INTEGER_OVERFLOW, field.name, wrong, column.cast(pl.String), "64 bits")
        return values
    exact = (column.cast(pl.Float64) == values.cast(pl.Float64)) & (values.abs() < 2**53)
    wrong = column.is_not_null() & ~exact.fill_null(False)
    shown = column.cast(pl.String)
    report(field.wrong, field.name, wrong, shown, EXPECTED[Kind.INTEGER])
    report(Reason.INTEGER_FROM_DECIMAL, field.name, exact.fill_null(False), shown, EXPECTED[Kind.INTEGER])
    return values.set(wrong, None)


def _without_infinite(column: pl.Series, field_path: FieldPath, report: Report) -> pl.Series:
    infinite = (~column.is_finite()).fill_null(False)
    if not infinite.any():
        return column
    field = field_path.field
    reason = Reason.VALUE_NOT_FINITE if field.wrong is Reason.VALUE_TYPE else field.wrong
    report(reason, field.name, infinite, "NaN or infinity", "a finite number")
    return column.set(infinite, None)


def _all_wrong(column: pl.Series, field_path: FieldPath, report: Report) -> pl.Series:
    """Report every value of the column as wrong: its type does not fit the field."""
    import polars as pl

    what = f"a value of type {column.dtype}"
    report(
        field_path.field.wrong,
        field_path.field.name,
        column.is_not_null(),
        what,
        EXPECTED[field_path.type.kind],
    )
    return pl.Series(column.name, [None], field_path.type.dtype()).new_from_index(0, len(column))


def _through_json(
    column: pl.Series, field_path: FieldPath, depth: int, collector: FindingCollector, report: Report
) -> pl.Series:
    """Encode nested values as JSON and decode them with the JSON decoder, which knows every form they may have."""
    import polars as pl

    if _holds_bytes(column.dtype):
        return _all_wrong(column, field_path, report)
    present = column.is_not_null()
    try:
        json_texts = (
            column.filter(present)
            .alias("v")
            .to_frame()
            .select(pl.struct("v").struct.json_encode())
            .to_series()
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return _all_wrong(column, field_path, report)
    steps = (Step("v", field_path.steps[0].lists), *field_path.steps[1:])
    decoder = Decoder([replace(field_path, steps=steps)], report.policy, depth)
    texts = json_texts.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.binary())
    mask = present.to_numpy()
    return scatter(decoder(texts, report.ids[mask], collector)[0], np.asarray(mask))


def _holds_bytes(dtype: pl.DataType) -> bool:
    """Whether a type contains bytes, which JSON cannot hold."""
    import polars as pl

    if isinstance(dtype, (pl.List, pl.Array)):
        return _holds_bytes(dtype.inner)  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return any(_holds_bytes(member.dtype) for member in dtype.fields)  # type: ignore[arg-type]
    return dtype == pl.Binary
