"""Cells of a table become the values of a field: by the grammar, or by the JSON decoder for cells that hold JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Findings, Int64s, Mask
from pipeline.cells import grammar
from pipeline.cells.convert import EXPECTED
from pipeline.cells.decoder import Decoder
from pipeline.cells.hits import SHOWN, Hits
from pipeline.cells.reads import Reading
from pipeline.cells.spread import spread
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
    """The values of the columns that hold nothing but good values, in one pass; None for any other reading."""
    import polars as pl

    wanted: dict[str, tuple[str, pl.Expr]] = {}
    for i, reading in enumerate(readings):
        name = reading.steps[0].key if len(reading.steps) == 1 else ""
        if cells.schema.get(name) != pl.String:
            continue
        column = pl.col(name)
        match reading.type.kind:
            case Kind.TEXT:
                wanted[str(i)] = (name, column)
            case Kind.INTEGER:
                wanted[str(i)] = (name, column.cast(pl.Int64, strict=False))
            case Kind.NUMBER if decimal == ".":
                wanted[str(i)] = (name, column.cast(pl.Float64, strict=False))
            case Kind.BOOLEAN:
                wanted[str(i)] = (
                    name,
                    pl.when(column == "true").then(True).when(column == "false").then(False),
                )
            case _:
                continue
    values = cells.select(expression.alias(i) for i, (_, expression) in wanted.items())
    found: list[pl.Series | None] = [None] * len(readings)
    for key, (name, _) in wanted.items():
        series = values.get_column(key)
        nulls = series.null_count()
        if nulls and (readings[int(key)].field.required or nulls != cells.get_column(name).null_count()):
            continue
        if series.dtype != pl.Float64 or np.isfinite(series.drop_nulls().to_numpy()).all():
            found[int(key)] = series
    return found


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
    return spread(decoder(texts, report.ids[there], hits)[0], there)


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
