"""The texts, dates or numbers inside of nested columns, laid flat, looked at, and put back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from pipeline.arrays import elements
from pipeline.batch import Int64s
from pipeline.cells.reads import element_of
from pipeline.fields import FieldType, Kind

if TYPE_CHECKING:
    import polars as pl

Look = Callable[["pl.Series", FieldType, Int64s], "pl.Series"]
"""Gets flat values, their type, and the record (index) of each; returns the values, changed or not."""


def holds(type_: FieldType, kinds: Collection[Kind]) -> bool:
    """Whether values of one of these kinds stand in the type."""
    if type_.kind in kinds:
        return True
    item = element_of(type_)
    return (item is not None and holds(item, kinds)) or any(holds(t, kinds) for _, t in type_.fields)


def mapped(
    column: pl.Series, type_: FieldType, kinds: Collection[Kind], look: Look, owners: Int64s | None = None
) -> pl.Series:
    """The column with ``look`` applied to every value of these kinds in it."""
    import polars as pl

    owners = np.arange(len(column), dtype=np.int64) if owners is None else owners
    if type_.kind in kinds:
        return look(column, type_, owners)
    item = element_of(type_)
    if item is not None and holds(item, kinds):
        lengths = column.list.len().fill_null(0).to_numpy().astype(np.int64)
        flat = elements(column)
        after = mapped(flat, item, kinds, look, np.repeat(owners, lengths))
        return column if after is flat else _relisted(column, after, lengths)
    if type_.kind is Kind.STRUCT and holds(type_, kinds):
        before = [column.struct.field(name) for name, _ in type_.fields]
        parts = [
            mapped(part, t, kinds, look, owners) for part, (_, t) in zip(before, type_.fields, strict=True)
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
