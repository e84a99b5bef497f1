"""The cell grammar: what the text of a cell means as a number, a boolean, a date or JSON.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.arrow_lists import scatter
from pipeline.batch import Findings, Int64s, Mask
from pipeline.fields import Content, FieldType, Kind, message_dtype
from pipeline.findings import SHOWN_CHARACTERS, FindingCollector
from pipeline.reasons import Policy, Reason
from pipeline.values.json_convert import EXPECTED
from pipeline.values.json_decode import Decoder
from pipeline.values.paths import FieldPath

if TYPE_CHECKING:
    import polars as pl


# The cell grammar: what the text of a cell means as a number, a boolean or a date. One grammar for every
# source.


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


def parse_cells(cells: pl.Series, kind: Kind, decimal: str = ".") -> Parsed:
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


# Cells of a table become the values of a field: by the grammar, or by the JSON decoder for cells that hold
# JSON.


SCALARS = (Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.DATETIME)
_TURNS = r"^\s*\[\s*\{"
"""How a cell begins that holds turns, rather than the plain text of one."""


@dataclass(frozen=True, slots=True)
class Report:
    """Findings on cells, in columns.

    Attributes:
        findings: where they go.
        policy: policy of each reason.
        ids: int64 [n], record of each cell.
        rows: int64 [n], physical row of each cell, where a record is a group of rows.
    """

    findings: Findings
    policy: Callable[[Reason], Policy]
    ids: Int64s
    rows: Int64s | None = None

    def __call__(
        self, reason: Reason, column: str, hits: pl.Series | Mask, shown: pl.Series | str, expected: str = ""
    ) -> None:
        """A finding for each cell where ``hits`` (Boolean [n]) is true; ``shown``: what stands there."""
        import polars as pl

        mask = hits.to_numpy() if isinstance(hits, pl.Series) else hits
        if not mask.any():
            return
        found = (
            shown
            if isinstance(shown, str)
            else shown.filter(pl.Series(mask)).str.slice(0, SHOWN_CHARACTERS).to_list()
        )
        paths = "" if self.rows is None else [f"row {row}" for row in self.rows[mask].tolist()]
        self.findings.add(
            reason, self.policy(reason), column, self.ids[mask], paths=paths, found=found, expected=expected
        )


def parse_plain_columns(
    cells: pl.DataFrame, readings: Sequence[FieldPath], decimal: str
) -> list[pl.Series | None]:
    """The values of the String columns that hold nothing but good values, in one pass; None for any other reading."""
    import polars as pl

    schema = cells.schema
    values: list[pl.Series | None] = [None] * len(readings)
    wanted: list[pl.Expr] = []
    for i, reading in enumerate(readings):
        name = reading.steps[0].key if len(reading.steps) == 1 else ""
        if schema.get(name) != pl.String:
            continue
        if reading.type.kind is Kind.TEXT:
            values[i] = cells.get_column(name)
        else:
            wanted += _expression(reading.type.kind, pl.col(name), decimal, str(i))
    for series in cells.select(wanted).get_columns() if wanted else ():
        values[int(series.name)] = series
    return [
        value if value is not None and _good(value, reading, cells) else None
        for value, reading in zip(values, readings, strict=True)
    ]


def _good(values: pl.Series, reading: FieldPath, cells: pl.DataFrame) -> bool:
    """Whether every cell gave a value, save blank ones where that is allowed."""
    import polars as pl

    nulls = values.null_count()
    if nulls and (reading.field.required or nulls != cells.get_column(reading.steps[0].key).null_count()):
        return False
    return values.dtype != pl.Float64 or bool(values.is_finite().all())


def _expression(kind: Kind, column: pl.Expr, decimal: str, name: str) -> list[pl.Expr]:
    """The values of a String column by the plainest spellings alone, null for every other cell; none for kinds that
    are not read so."""
    import polars as pl

    match kind:
        case Kind.INTEGER:
            return [column.cast(pl.Int64, strict=False).alias(name)]
        case Kind.NUMBER if decimal == ".":
            return [column.cast(pl.Float64, strict=False).alias(name)]
        case Kind.BOOLEAN:
            return [pl.when(column == "true").then(True).when(column == "false").then(False).alias(name)]
        case _:
            return []


def parse_scalars(
    cells: pl.Series, type_: FieldType, decimal: str, column: str, wrong: Reason, report: Report
) -> pl.Series:
    """Cells (String, null: blank) by the grammar; null where one is wrong, which is the finding ``wrong``."""
    parsed = parse_cells(cells, type_.kind, decimal)
    expected = EXPECTED[type_.kind]
    report(wrong, column, parsed.wrong, cells, expected)
    if parsed.not_finite is not None:
        reason = Reason.VALUE_NOT_FINITE if wrong is Reason.VALUE_TYPE else wrong
        report(reason, column, parsed.not_finite, cells, "a finite number")
    if parsed.whole is not None:
        report(Reason.INTEGER_FROM_DECIMAL, column, parsed.whole, cells, expected)
    return parsed.values


def parse_json_cells(
    cells: pl.Series, reading: FieldPath, depth: int, hits: FindingCollector, report: Report
) -> pl.Series:
    """Cells that hold JSON (null: blank), decoded; null where a cell is blank or wrong."""
    import polars as pl
    import pyarrow as pa

    if reading.field.text_turn:
        return _turns_or_text(cells, reading, depth, hits, report)
    filled = (cells.str.strip_chars(BLANKS) != "").fill_null(False)
    boxes = reading.type.kind is Kind.BOXES or reading.part >= 0
    decoder = Decoder(
        [replace(reading, steps=reading.steps[1:])], report.policy, depth, cell=True,
        broken=Reason.BBOX_UNPARSED if boxes else Reason.CELL_JSON_INVALID,
    )  # fmt: skip
    texts = cells.filter(filled).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.binary())
    there = filled.to_numpy()
    return scatter(decoder(texts, report.ids[there], hits)[0], there)


def _turns_or_text(
    cells: pl.Series, reading: FieldPath, depth: int, hits: FindingCollector, report: Report
) -> pl.Series:
    """A cell that begins like a list of turns must be one; any other text is one turn without a role."""
    import polars as pl

    turns = cells.str.contains(_TURNS).fill_null(False)
    strict = replace(reading, field=replace(reading.field, text_turn=False))
    lists = parse_json_cells(cells.set(~turns, None), strict, depth, hits, report)
    frame = pl.DataFrame({"lists": lists, "text": cells, "turns": turns})
    turn = pl.struct(
        content=pl.col("text"), content_kind=pl.lit(Content.TEXT.value), role=None, name=None, tool_calls=None,
        tool_call_id=None, train=None, weight=None,
    )  # fmt: skip
    ordered = pl.struct(*(turn.struct.field(name).cast(t) for name, t in message_dtype().to_schema().items()))
    one = pl.when(pl.col("text").is_not_null()).then(pl.concat_list(ordered))
    return frame.select(pl.when("turns").then(pl.col("lists")).otherwise(one).alias("v")).to_series()
