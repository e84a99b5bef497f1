"""A schema's column rules as a pandera contract.

pandera holds and runs the rules; it never splits rows (it certifies bad data when used for that). A check is
named ``column|reason`` and gives one boolean a row; a null is judged by the cast stage and passes here, except in
the strict contract, which the good half must pass and where a required column may not be null.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from pipeline.errors import SchemaError
from pipeline.reasons import Policy, Reason
from pipeline.schema.columns import Column
from pipeline.schema.fields import fields_of
from pipeline.schema.model import Schema

if TYPE_CHECKING:
    import pandera.polars as pa

Expr = Callable[[pl.Expr], pl.Expr]
BLANK = r"^[\s\u{200B}-\u{200D}\u{2060}\u{FEFF}]*$"
"""White space and zero-width characters only."""
CLIP = 80
"""Most characters of a value that a finding repeats."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one column.

    Attributes:
        passes: gives true for a value that passes.
        shows: gives the text of what was found, for those that do not.
        expected: what was expected, in words.
    """

    column: str
    reason: Reason
    passes: Expr
    shows: Expr
    expected: str

    @property
    def name(self) -> str:
        """The check's name in the contract."""
        return f"{self.column}|{self.reason.slug}"


def rules_of(schema: Schema) -> tuple[Rule, ...]:
    """All rules of a schema's columns, in the order of the columns."""
    return tuple(rule for name, column in schema.columns.items() for rule in _rules(name, column))


def _shown(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.String).str.slice(0, CLIP)


def _length(value: pl.Expr) -> pl.Expr:
    return value.str.len_chars().cast(pl.String)


def _rules(name: str, column: Column) -> list[Rule]:
    rules: list[Rule] = []

    def add(reason: Reason, passes: Expr, shows: Expr, expected: str) -> None:
        rules.append(Rule(name, reason, passes, shows, expected))

    if column.type == "text":
        if column.blank == "refuse" and column.required:
            add(Reason.TEXT_BLANK, lambda c: ~c.str.contains(BLANK), lambda c: pl.lit(""), "text")
        if (low := column.min_characters) is not None:
            add(Reason.TEXT_TOO_SHORT, lambda c: c.str.len_chars() >= low, _length, str(low))
        if (high := column.max_characters) is not None:
            add(Reason.TEXT_TOO_LONG, lambda c: c.str.len_chars() <= high, _length, str(high))
        if column.pattern is not None:
            whole = f"^(?:{column.pattern})$"
            _check_pattern(name, whole)
            add(Reason.TEXT_PATTERN, lambda c: c.str.contains(whole), lambda c: pl.lit(""), column.pattern)
    if column.min is not None or column.max is not None:
        least = -math.inf if column.min is None else column.min
        most = math.inf if column.max is None else column.max
        add(Reason.VALUE_OUT_OF_RANGE, lambda c: c.is_between(least, most), _shown, f"{least:g} to {most:g}")
    if (allowed := column.allowed) is not None:
        known = ", ".join(str(value) for value in allowed[:20])
        add(Reason.VALUE_NOT_ALLOWED, lambda c: c.is_in(list(allowed)), _shown, known)
    return rules


def _check_pattern(name: str, pattern: str) -> None:
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        raise SchemaError(
            "the pattern is not a regular expression",
            where=f"columns.{name}.pattern",
            found=pattern,
            expected="a regular expression without look-around or back-references",
            remedy=str(error).splitlines()[0],
        ) from None


def contract(schema: Schema, *, strict: bool = False) -> pa.DataFrameSchema:
    """The pandera contract over the frame that the cast stage delivers.

    Args:
        schema: the schema.
        strict: the good half's contract over the schema's own columns: a required one may not be null, and what
            a policy only flags is let through. The kind's fields are judged in their final form by certify.
    """
    import pandera.polars as pa

    rules = [r for r in rules_of(schema) if not (strict and schema.policy(r.reason) is Policy.FLAG)]
    columns = {
        field.name: pa.Column(
            field.type.dtype(),
            nullable=not (strict and field.required),
            checks=[_check(rule) for rule in rules if rule.column == field.name],
        )
        for field in fields_of(schema)
        if not (strict and field.name.startswith("@"))
    }
    return pa.DataFrameSchema(columns, name=schema.name, strict=False, coerce=False)


def _check(rule: Rule) -> Any:
    import pandera.polars as pa

    def passes(data: Any) -> pl.LazyFrame:
        frame: pl.LazyFrame = data.lazyframe
        return frame.select(rule.passes(pl.col(data.key)).fill_null(True))

    return pa.Check(passes, name=rule.name, ignore_na=False, n_failure_cases=3)


def describe(schema: Schema) -> list[tuple[str, str, str]]:
    """(column, reason, expected) of each rule, for plans and documentation."""
    missing = [(f.shown, f.missing.slug, f.type.kind.value) for f in fields_of(schema) if f.required]
    rules = [(rule.column, rule.reason.slug, rule.expected) for rule in rules_of(schema)]
    return list(dict.fromkeys(missing + rules))
