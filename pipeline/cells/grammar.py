"""The cell grammar: what the text of a cell means as a number, a boolean or a date. One grammar for every source.

White space around a value does not count. A value is never rounded, truncated or read in part.

======== ====================================================================================
integer  ``[+-]digits``, within 64 bits; ``5.0`` is 5, noted as a repair
number   ``[+-]digits[.digits][e[+-]digits]`` with the declared decimal mark; no thousands marks
boolean  true, false, yes, no, 1, 0, in any case
date     ``2024-01-31``, also with a time of day of zero behind it, as spreadsheets show dates
datetime ``2024-01-31T09:30[:00[.000]]``, a space for the T, an offset or Z; a bare date is midnight
======== ====================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.fields import Kind

if TYPE_CHECKING:
    import polars as pl

BLANKS = " \t\r\n\v\f\xa0"
"""White space that does not count at the edges of a value."""

_WHOLE = r"^[+-]?[0-9]+\.0+$"
_NOT_FINITE = r"(?i)^[+-]?(nan|inf|infinity)$"
_GROUPED = r"^[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}$"
_DATE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]00:00(?::00(?:\.0+)?)?)?$"
_TIME = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2})(:[0-5][0-9])?(\.[0-9]{1,9})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?)?$"
)
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Cells read by the grammar.

    Attributes:
        values: typed; null where the cell is blank or does not parse.
        wrong: Boolean, cells that hold something else.
        not_finite: Boolean, cells that spell NaN, infinity or a number beyond the range of a double.
        whole: Boolean, cells with a whole number written with a decimal point, where an integer is expected.
    """

    values: pl.Series
    wrong: pl.Series
    not_finite: pl.Series | None = None
    whole: pl.Series | None = None


def parse(cells: pl.Series, kind: Kind, decimal: str = ".") -> Parsed:
    """Read String cells (null: blank) as one of the scalar kinds.

    ``decimal`` is the mark of numbers: ``.``, ``,``, or ``.,`` for either; then ``1.234``, which may be meant with
    a thousands mark, does not parse.
    """
    match kind:
        case Kind.INTEGER:
            return _integers(cells)
        case Kind.NUMBER:
            return _numbers(cells, decimal)
        case Kind.BOOLEAN:
            return _booleans(cells)
        case Kind.DATE:
            return _dates(cells)
        case Kind.DATETIME:
            return _datetimes(cells)
        case _:
            raise ValueError(f"no cell grammar for {kind}")


def _integers(cells: pl.Series) -> Parsed:
    import polars as pl

    values = cells.cast(pl.Int64, strict=False)
    missed = values.is_null() & cells.is_not_null()
    if not missed.any():
        return Parsed(values, missed)
    trimmed = cells.set(~missed, None).str.strip_chars(BLANKS)
    whole = trimmed.str.contains(_WHOLE).fill_null(False)
    again = trimmed.str.replace(r"\.0+$", "").cast(pl.Int64, strict=False)
    wrong = missed & again.is_null() & (trimmed != "").fill_null(False)
    return Parsed(values.zip_with(~missed, again), wrong, whole=whole & ~wrong)


def _numbers(cells: pl.Series, decimal: str) -> Parsed:
    import polars as pl

    text = cells
    if decimal == ",":
        text = cells.set(cells.str.contains(".", literal=True), "?").str.replace(",", ".", literal=True)
    elif decimal == ".,":
        text = cells.set(cells.str.strip_chars(BLANKS).str.contains(_GROUPED), "?")
        text = text.str.replace(",", ".", literal=True)
    values = text.cast(pl.Float64, strict=False)
    missed = values.is_null() & cells.is_not_null()
    if missed.any():
        text = text.str.strip_chars(BLANKS)
        values = values.zip_with(~missed, text.cast(pl.Float64, strict=False))
        missed = values.is_null() & (text != "").fill_null(False)
    infinite = (~values.is_finite()).fill_null(False)
    if infinite.any():
        values = values.set(infinite, None)
    return Parsed(values, missed, not_finite=infinite)


def _booleans(cells: pl.Series) -> Parsed:
    import polars as pl

    true, false = cells == "true", cells == "false"
    if not (true | false | cells.is_null()).all():
        text = cells.str.strip_chars(BLANKS).str.to_lowercase()
        true, false = text.is_in(_TRUE), text.is_in(_FALSE)
        blank = cells.is_null() | (text == "")
    else:
        blank = cells.is_null()
    values = true.zip_with(
        true | false, pl.Series(cells.name, [None], pl.Boolean).new_from_index(0, len(cells))
    )
    return Parsed(values, ~(true | false | blank).fill_null(True))


def _dates(cells: pl.Series) -> Parsed:
    text = cells.str.strip_chars(BLANKS)
    values = text.str.extract(_DATE)
    values = values.set(values.str.to_date("%Y-%m-%d", strict=False).is_null(), None)
    return Parsed(values, values.is_null() & (text != "").fill_null(False))


def _datetimes(cells: pl.Series) -> Parsed:
    import polars as pl

    frame = cells.rename("text").str.strip_chars(BLANKS).to_frame()
    parts = frame.with_columns(
        *(pl.col("text").str.extract(_TIME, group).alias(str(group)) for group in range(1, 6))
    ).with_columns(
        clock=pl.col("2").fill_null("00:00") + pl.col("3").fill_null(":00"),
    )
    shown = parts.select(
        value=pl.col("1") + "T" + pl.col("clock") + pl.col("4").fill_null("") + pl.col("5").fill_null(""),
        moment=(pl.col("1") + "T" + pl.col("clock")).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False),
        offset=pl.col("5").str.slice(1).str.to_time("%H:%M", strict=False).is_null()
        & (pl.col("5") != "Z").fill_null(False),
    )
    bad = shown["moment"].is_null() | shown["offset"]
    values = shown["value"].set(bad, None).rename(cells.name)
    return Parsed(values, values.is_null() & (frame["text"] != "").fill_null(False))
