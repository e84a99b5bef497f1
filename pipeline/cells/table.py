"""Cells of a table become the values of a field: by the grammar, or by the JSON decoder for cells that hold JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.batch import Findings, Int64s, Mask
from pipeline.cells import grammar
from pipeline.cells.convert import EXPECTED
from pipeline.cells.decoder import Decoder
from pipeline.cells.hits import SHOWN, Hits
from pipeline.cells.reads import Reading
from pipeline.cells.spread import scatter
from pipeline.fields import Content, FieldType, Kind, message_dtype
from pipeline.reasons import Policy, Reason

if TYPE_CHECKING:
    import polars as pl

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
            shown if isinstance(shown, str) else shown.filter(pl.Series(mask)).str.slice(0, SHOWN).to_list()
        )
        paths = "" if self.rows is None else [f"row {row}" for row in self.rows[mask].tolist()]
        self.findings.add(
            reason, self.policy(reason), column, self.ids[mask], paths=paths, found=found, expected=expected
        )


def plain(cells: pl.DataFrame, readings: Sequence[Reading], decimal: str) -> list[pl.Series | None]:
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


def _good(values: pl.Series, reading: Reading, cells: pl.DataFrame) -> bool:
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


def scalars(
    cells: pl.Series, type_: FieldType, decimal: str, column: str, wrong: Reason, report: Report
) -> pl.Series:
    """Cells (String, null: blank) by the grammar; null where one is wrong, which is the finding ``wrong``."""
    parsed = grammar.parse(cells, type_.kind, decimal)
    expected = EXPECTED[type_.kind]
    report(wrong, column, parsed.wrong, cells, expected)
    if parsed.not_finite is not None:
        reason = Reason.VALUE_NOT_FINITE if wrong is Reason.VALUE_TYPE else wrong
        report(reason, column, parsed.not_finite, cells, "a finite number")
    if parsed.whole is not None:
        report(Reason.INTEGER_FROM_DECIMAL, column, parsed.whole, cells, expected)
    return parsed.values


def json(cells: pl.Series, reading: Reading, depth: int, hits: Hits, report: Report) -> pl.Series:
    """Cells that hold JSON (null: blank), decoded; null where a cell is blank or wrong."""
    import polars as pl
    import pyarrow as pa

    if reading.field.text_turn:
        return _turns_or_text(cells, reading, depth, hits, report)
    filled = (cells.str.strip_chars(grammar.BLANKS) != "").fill_null(False)
    boxes = reading.type.kind is Kind.BOXES or reading.part >= 0
    decoder = Decoder(
        [replace(reading, steps=reading.steps[1:])], report.policy, depth, cell=True,
        broken=Reason.BBOX_UNPARSED if boxes else Reason.CELL_JSON_INVALID,
    )  # fmt: skip
    texts = cells.filter(filled).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.binary())
    there = filled.to_numpy()
    return scatter(decoder(texts, report.ids[there], hits)[0], there)


def _turns_or_text(cells: pl.Series, reading: Reading, depth: int, hits: Hits, report: Report) -> pl.Series:
    """A cell that begins like a list of turns must be one; any other text is one turn without a role."""
    import polars as pl

    turns = cells.str.contains(_TURNS).fill_null(False)
    strict = replace(reading, field=replace(reading.field, text_turn=False))
    lists = json(cells.set(~turns, None), strict, depth, hits, report)
    frame = pl.DataFrame({"lists": lists, "text": cells, "turns": turns})
    turn = pl.struct(
        content=pl.col("text"), content_kind=pl.lit(Content.TEXT.value), role=None, name=None, tool_calls=None,
        tool_call_id=None, train=None, weight=None,
    )  # fmt: skip
    ordered = pl.struct(*(turn.struct.field(name).cast(t) for name, t in message_dtype().to_schema().items()))
    one = pl.when(pl.col("text").is_not_null()).then(pl.concat_list(ordered))
    return frame.select(pl.when("turns").then(pl.col("lists")).otherwise(one).alias("v")).to_series()
