"""The cell grammar: what the text of a cell means as a number, a boolean, a date or JSON.

White space around a value does not count. The grammar never rounds, truncates or reads a part of a value.

======== ====================================================================================
integer  ``[+-]digits``, within 64 bits; ``5.0`` is 5, recorded as a repair
number   ``[+-]digits[.digits][e[+-]digits]`` with the declared decimal mark; no thousands marks
boolean  true, false, yes, no, 1, 0, in any case
date     ``2024-01-31``, also followed by a time of day of zero, as spreadsheets show dates
datetime ``2024-01-31T09:30[:00[.000]]``, a space for the T, an offset or Z; a bare date is midnight
======== ====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

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


# The grammar


BLANKS = " \t\r\n\v\f\xa0"
"""White space that is stripped from both ends of a value."""

_INTEGER_WITH_POINT = r"^[+-]?[0-9]+\.0+$"
_MAYBE_THOUSANDS = r"^[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}$"
_DATE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]00:00(?::00(?:\.0+)?)?)?$"
_TIME = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2})(:[0-5][0-9])?(\.[0-9]{1,9})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?)?$"
)
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True, slots=True)
class Parsed:
    """Cells parsed by the grammar.

    Attributes:
        values: typed; null where the cell is blank or does not parse.
        wrong: Boolean, cells that do not parse.
        not_finite: Boolean, cells that spell NaN, infinity or a number beyond the range of a double.
        with_point: Boolean, cells with an integer that is written with a decimal point, such as ``5.0``.
    """

    values: pl.Series
    wrong: pl.Series
    not_finite: pl.Series | None = None
    with_point: pl.Series | None = None


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
    unparsed = values.is_null() & cells.is_not_null()
    if not unparsed.any():
        return Parsed(values, unparsed)
    trimmed = cells.set(~unparsed, None).str.strip_chars(BLANKS)
    with_point = trimmed.str.contains(_INTEGER_WITH_POINT).fill_null(False)
    retried = trimmed.str.replace(r"\.0+$", "").cast(pl.Int64, strict=False)
    wrong = unparsed & retried.is_null() & (trimmed != "").fill_null(False)
    return Parsed(values.zip_with(~unparsed, retried), wrong, with_point=with_point & ~wrong)


def _numbers(cells: pl.Series, decimal: str) -> Parsed:
    import polars as pl

    text = cells
    if decimal == ",":
        text = cells.set(cells.str.contains(".", literal=True), "?").str.replace(",", ".", literal=True)
    elif decimal == ".,":
        text = cells.set(cells.str.strip_chars(BLANKS).str.contains(_MAYBE_THOUSANDS), "?")
        text = text.str.replace(",", ".", literal=True)
    values = text.cast(pl.Float64, strict=False)
    unparsed = values.is_null() & cells.is_not_null()
    if unparsed.any():
        text = text.str.strip_chars(BLANKS)
        values = values.zip_with(~unparsed, text.cast(pl.Float64, strict=False))
        unparsed = values.is_null() & (text != "").fill_null(False)
    infinite = (~values.is_finite()).fill_null(False)
    if infinite.any():
        values = values.set(infinite, None)
    return Parsed(values, unparsed, not_finite=infinite)


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


# Cells become the values of a field


SCALARS = (Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.DATETIME)
_TURNS_START = r"^\s*\[\s*\{"
"""How a cell with a list of turns begins; any other cell is the plain text of one turn."""


@dataclass(frozen=True, slots=True)
class Report:
    """Reports findings on cells, a column at a time.

    Attributes:
        findings: receives them.
        policy: policy of each reason.
        ids: int64 [n], record of each cell.
        rows: int64 [n], physical row of each cell, where a record is a group of rows.
    """

    findings: Findings
    policy: Callable[[Reason], Policy]
    ids: Int64s
    rows: Int64s | None = None

    def __call__(
        self, reason: Reason, column: str, mask: pl.Series | Mask, shown: pl.Series | str, expected: str = ""
    ) -> None:
        """Add a finding for each cell where ``mask`` (bool [n]) is true; ``shown``: the text to show as found."""
        import polars as pl

        where = mask.to_numpy() if isinstance(mask, pl.Series) else mask
        if not where.any():
            return
        found = (
            shown
            if isinstance(shown, str)
            else shown.filter(pl.Series(where)).str.slice(0, SHOWN_CHARACTERS).to_list()
        )
        paths = "" if self.rows is None else [f"row {row}" for row in self.rows[where].tolist()]
        self.findings.add(
            reason, self.policy(reason), column, self.ids[where], paths=paths, found=found, expected=expected
        )


def parse_plain_columns(
    cells: pl.DataFrame, paths: Sequence[FieldPath], decimal: str
) -> list[pl.Series | None]:
    """The values of the String columns whose cells are all valid, in one pass; None for every other path."""
    import polars as pl

    schema = cells.schema
    values: list[pl.Series | None] = [None] * len(paths)
    wanted: list[pl.Expr] = []
    for i, field_path in enumerate(paths):
        name = field_path.steps[0].key if len(field_path.steps) == 1 else ""
        if schema.get(name) != pl.String:
            continue
        if field_path.type.kind is Kind.TEXT:
            values[i] = cells.get_column(name)
        else:
            wanted += _plain_expressions(field_path.type.kind, pl.col(name), decimal, str(i))
    for series in cells.select(wanted).get_columns() if wanted else ():
        values[int(series.name)] = series
    return [
        value if value is not None and _is_complete(value, field_path, cells) else None
        for value, field_path in zip(values, paths, strict=True)
    ]


def _is_complete(values: pl.Series, field_path: FieldPath, cells: pl.DataFrame) -> bool:
    """Whether every cell has a value; blank cells are allowed where the field is not required."""
    import polars as pl

    nulls = values.null_count()
    if nulls and (
        field_path.field.required or nulls != cells.get_column(field_path.steps[0].key).null_count()
    ):
        return False
    return values.dtype != pl.Float64 or bool(values.is_finite().all())


def _plain_expressions(kind: Kind, column: pl.Expr, decimal: str, name: str) -> list[pl.Expr]:
    """An expression that parses only the plainest spellings of a String column and gives null for every other cell;
    none for the other kinds."""
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
    """Parse cells (String, null: blank) by the grammar; null, with the finding ``wrong``, where one does not parse."""
    parsed = parse_cells(cells, type_.kind, decimal)
    expected = EXPECTED[type_.kind]
    report(wrong, column, parsed.wrong, cells, expected)
    if parsed.not_finite is not None:
        reason = Reason.VALUE_NOT_FINITE if wrong is Reason.VALUE_TYPE else wrong
        report(reason, column, parsed.not_finite, cells, "a finite number")
    if parsed.with_point is not None:
        report(Reason.INTEGER_FROM_DECIMAL, column, parsed.with_point, cells, expected)
    return parsed.values


def parse_json_cells(
    cells: pl.Series, field_path: FieldPath, depth: int, collector: FindingCollector, report: Report
) -> pl.Series:
    """Decode cells that hold JSON (null: blank); null where a cell is blank or wrong."""
    import polars as pl

    if field_path.field.text_turn:
        return _turns_or_text(cells, field_path, depth, collector, report)
    is_filled = (cells.str.strip_chars(BLANKS) != "").fill_null(False)
    boxes = field_path.type.kind is Kind.BOXES or field_path.part >= 0
    decoder = Decoder(
        [replace(field_path, steps=field_path.steps[1:])],
        report.policy,
        depth,
        cell=True,
        broken=Reason.BBOX_UNPARSED if boxes else Reason.CELL_JSON_INVALID,
    )
    texts = cells.filter(is_filled).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.binary())
    filled = is_filled.to_numpy()
    return scatter(decoder(texts, report.ids[filled], collector)[0], filled)


def _turns_or_text(
    cells: pl.Series, field_path: FieldPath, depth: int, collector: FindingCollector, report: Report
) -> pl.Series:
    """A cell that begins like a list of turns must be one; any other text is one turn without a role."""
    import polars as pl

    turns = cells.str.contains(_TURNS_START).fill_null(False)
    strict = replace(field_path, field=replace(field_path.field, text_turn=False))
    lists = parse_json_cells(cells.set(~turns, None), strict, depth, collector, report)
    frame = pl.DataFrame({"lists": lists, "text": cells, "turns": turns})
    turn = pl.struct(
        content=pl.col("text"),
        content_kind=pl.lit(Content.TEXT.value),
        role=None,
        name=None,
        tool_calls=None,
        tool_call_id=None,
        train=None,
        weight=None,
    )
    ordered = pl.struct(*(turn.struct.field(name).cast(t) for name, t in message_dtype().to_schema().items()))
    one = pl.when(pl.col("text").is_not_null()).then(pl.concat_list(ordered))
    return frame.select(pl.when("turns").then(pl.col("lists")).otherwise(one).alias("v")).to_series()
