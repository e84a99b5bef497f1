"""Paths into JSON values and nested columns: where the value of a field lies, and how to visit its innermost values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.arrow_lists import elements
from pipeline.batch import Int64s
from pipeline.fields import Field, FieldType, Kind

if TYPE_CHECKING:
    import polars as pl


# Paths such as ``$.page.width`` and ``$.lines[].text``


_STEP = re.compile(r"(?:\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\])((?:\[\])*)")


@dataclass(frozen=True, slots=True)
class Step:
    """One key of a path, and how many levels of lists below it the path goes through, element by element."""

    key: str
    lists: int = 0

    def __str__(self) -> str:
        plain = re.fullmatch(r"[^.\[\]']+", self.key)
        return (f".{self.key}" if plain else f"['{self.key}']") + "[]" * self.lists


def parse_path(path: str) -> tuple[Step, ...]:
    """The steps of a path. A text that does not begin with ``$`` is one key, taken literally; ``$`` alone has no step.

    Raises ``ValueError`` for a malformed path.
    """
    if not path.startswith("$"):
        return (Step(path),)
    found: list[Step] = []
    at = 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise ValueError(f"{path!r} is no path: write `$.key.key` or `$.list[].key`")
        key = match[1] if match[1] is not None else re.sub(r"\\(.)", r"\1", match[2])
        found.append(Step(key, match[3].count("[]")))
        at = match.end()
    return tuple(found)


# The paths of a field: one as a rule; boxes may have a column for each coordinate


NUMBER = FieldType(Kind.NUMBER)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """Where one value of a field lies in a record.

    Attributes:
        field, index: the field that the value belongs to, and its index among the fields.
        part: which of the field's columns this is, -1 if the field has only one.
        steps: where the value lies.
        type: the type of the value: the field's type, or a list of numbers for one coordinate of boxes.
        element: type of one element if the path goes through lists, whose values form one list; else None.
    """

    field: Field
    index: int
    part: int
    steps: tuple[Step, ...]
    type: FieldType
    element: FieldType | None

    @property
    def path(self) -> str:
        """The path in JSON notation."""
        return "$" + "".join(map(str, self.steps))

    @property
    def leaf(self) -> FieldType:
        """Type of the value at the end of the path."""
        return self.element or self.type


def field_paths(fields: Sequence[Field]) -> tuple[FieldPath, ...]:
    """The paths of these fields, in their order.

    Raises ``ValueError`` for a malformed path, and for a path through lists to a field that is no list.
    """
    found = []
    for index, field in enumerate(fields):
        paths = (field.path,) if isinstance(field.path, str) else field.path
        for part, path in enumerate(paths):
            type_ = field.type if len(paths) == 1 else FieldType(Kind.LIST, item=NUMBER)
            path_steps = parse_path(path)
            list_levels = sum(step.lists for step in path_steps)
            element = element_of(type_) if list_levels else None
            if list_levels and element is None:
                raise ValueError(f"{path!r} leads to a list, {field.name!r} is {type_.kind}")
            found.append(FieldPath(field, index, part if len(paths) > 1 else -1, path_steps, type_, element))
    return tuple(found)


def element_of(type_: FieldType) -> FieldType | None:
    """Type of one element of a list type; None for other types."""
    match type_.kind:
        case Kind.LIST:
            return type_.item
        case Kind.WORDS:
            return FieldType(Kind.TEXT)
        case Kind.BOXES:
            return FieldType(Kind.LIST, item=NUMBER)
        case Kind.LABELS:
            return FieldType(Kind.INTEGER if type_.ids else Kind.TEXT)
        case Kind.TOKENS:
            return FieldType(Kind.INTEGER)
        case _:
            return None


# Innermost values of nested columns


Visit = Callable[["pl.Series", FieldType, Int64s], "pl.Series"]
"""Takes values, their type and the index of the record of each; returns the values, changed or not."""


def holds_kind(type_: FieldType, kinds: Collection[Kind]) -> bool:
    """Whether the type contains values of one of these kinds."""
    if type_.kind in kinds:
        return True
    item = element_of(type_)
    return (item is not None and holds_kind(item, kinds)) or any(
        holds_kind(t, kinds) for _, t in type_.fields
    )


def map_nested(
    column: pl.Series, type_: FieldType, kinds: Collection[Kind], visit: Visit, owners: Int64s | None = None
) -> pl.Series:
    """The column with ``visit`` applied to every value of these kinds in it, at any depth."""
    import polars as pl

    owners = np.arange(len(column), dtype=np.int64) if owners is None else owners
    if type_.kind in kinds:
        return visit(column, type_, owners)
    item = element_of(type_)
    if item is not None and holds_kind(item, kinds):
        lengths = column.list.len().fill_null(0).to_numpy().astype(np.int64)
        inner = elements(column)
        visited = map_nested(inner, item, kinds, visit, np.repeat(owners, lengths))
        return column if visited is inner else _as_lists(column, visited, lengths)
    if type_.kind is Kind.STRUCT and holds_kind(type_, kinds):
        before = [column.struct.field(name) for name, _ in type_.fields]
        parts = [
            map_nested(part, t, kinds, visit, owners)
            for part, (_, t) in zip(before, type_.fields, strict=True)
        ]
        if all(a is b for a, b in zip(parts, before, strict=True)):
            return column
        frame = pl.DataFrame([part.alias(name) for part, (name, _) in zip(parts, type_.fields, strict=True)])
        return (
            frame.with_columns(present=column.is_not_null())
            .select(
                pl.when("present").then(pl.struct(*(name for name, _ in type_.fields))).alias(column.name)
            )
            .to_series()
        )
    return column


def _as_lists(column: pl.Series, inner: pl.Series, lengths: Int64s) -> pl.Series:
    import polars as pl

    offsets = np.concatenate([[0], np.cumsum(lengths)])
    lists = pa.LargeListArray.from_arrays(
        pa.array(offsets),
        inner.to_arrow(compat_level=pl.CompatLevel.oldest()),
        mask=pa.array(column.is_null().to_numpy()),
    )
    return pl.Series(column.name, pl.from_arrow(lists))
