"""Paths into a JSON value or a nested column: where a field is read, and its innermost values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.arrow_lists import elements
from pipeline.batch import Int64s
from pipeline.fields import Field, FieldType, Kind

if TYPE_CHECKING:
    import polars as pl


# Where a field is read in a JSON value: a plain key, or a path such as ``$.page.width`` or
# ``$.lines[].text``.


_STEP = re.compile(r"(?:\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\])((?:\[\])*)")


@dataclass(frozen=True, slots=True)
class Step:
    """One key on the way, and how many levels of list below it are followed element by element."""

    key: str
    lists: int = 0

    def __str__(self) -> str:
        plain = re.fullmatch(r"[^.\[\]']+", self.key)
        return (f".{self.key}" if plain else f"['{self.key}']") + "[]" * self.lists


def steps(path: str) -> tuple[Step, ...]:
    """The steps of a path. A text that does not begin with ``$`` is one key, taken literally; ``$`` is no step.

    Raises ``ValueError`` for a path that is none.
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


# The values a field is read from: one path as a rule; boxes of some tables have a column a coordinate.


NUMBER = FieldType(Kind.NUMBER)


@dataclass(frozen=True, slots=True)
class FieldPath:
    """One value of a record.

    Attributes:
        field: the field it belongs to, and ``index`` its place among the fields.
        part: which of the field's columns, -1 when there is one only.
        steps: where the value lies.
        type: what it must be: the field's type, or for a part a list of numbers.
        element: type of one element, when the path goes through lists; the values are then gathered into one list.
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
        """Type of what stands at the end of the path."""
        return self.element or self.type


def field_paths(fields: Sequence[Field]) -> tuple[FieldPath, ...]:
    """The values to read for these fields, in their order. Raises ``ValueError`` for a path that cannot be."""
    found = []
    for index, field in enumerate(fields):
        paths = (field.path,) if isinstance(field.path, str) else field.path
        for part, path in enumerate(paths):
            type_ = field.type if len(paths) == 1 else FieldType(Kind.LIST, item=NUMBER)
            way = steps(path)
            many = sum(step.lists for step in way)
            element = element_of(type_) if many else None
            if many and element is None:
                raise ValueError(f"{path!r} leads to a list, {field.name!r} is {type_.kind}")
            found.append(FieldPath(field, index, part if len(paths) > 1 else -1, way, type_, element))
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


# The texts, dates or numbers inside of nested columns, laid flat, looked at, and put back.


Visit = Callable[["pl.Series", FieldType, Int64s], "pl.Series"]
"""Gets flat values, their type, and the record (index) of each; returns the values, changed or not."""


def holds_kind(type_: FieldType, kinds: Collection[Kind]) -> bool:
    """Whether values of one of these kinds stand in the type."""
    if type_.kind in kinds:
        return True
    item = element_of(type_)
    return (item is not None and holds_kind(item, kinds)) or any(
        holds_kind(t, kinds) for _, t in type_.fields
    )


def map_nested(
    column: pl.Series, type_: FieldType, kinds: Collection[Kind], look: Visit, owners: Int64s | None = None
) -> pl.Series:
    """The column with ``look`` applied to every value of these kinds in it."""
    import polars as pl

    owners = np.arange(len(column), dtype=np.int64) if owners is None else owners
    if type_.kind in kinds:
        return look(column, type_, owners)
    item = element_of(type_)
    if item is not None and holds_kind(item, kinds):
        lengths = column.list.len().fill_null(0).to_numpy().astype(np.int64)
        flat = elements(column)
        after = map_nested(flat, item, kinds, look, np.repeat(owners, lengths))
        return column if after is flat else _relisted(column, after, lengths)
    if type_.kind is Kind.STRUCT and holds_kind(type_, kinds):
        before = [column.struct.field(name) for name, _ in type_.fields]
        parts = [
            map_nested(part, t, kinds, look, owners)
            for part, (_, t) in zip(before, type_.fields, strict=True)
        ]
        if all(a is b for a, b in zip(parts, before, strict=True)):
            return column
        frame = pl.DataFrame([part.alias(name) for part, (name, _) in zip(parts, type_.fields, strict=True)])
        return (
            frame.with_columns(there=column.is_not_null())
            .select(pl.when("there").then(pl.struct(*(name for name, _ in type_.fields))).alias(column.name))
            .to_series()
        )
    return column


def _relisted(column: pl.Series, flat: pl.Series, lengths: Int64s) -> pl.Series:
    import polars as pl
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum(lengths)])
    lists = pa.LargeListArray.from_arrays(
        pa.array(offsets), flat.to_arrow(compat_level=pl.CompatLevel.oldest()),
        mask=pa.array(column.is_null().to_numpy()),
    )  # fmt: skip
    return pl.Series(column.name, pl.from_arrow(lists))
