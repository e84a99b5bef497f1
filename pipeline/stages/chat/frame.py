"""Turns as columns of the frame, between the stage that judges them and the one that encodes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.arrays import Int64s, offsets, owners, within
from pipeline.fields import message_dtype
from pipeline.stages.chat.turns import FIELDS, ROLES, UNKNOWN, Mask, Turns

TURNS, REJECTED, TOOLS = "@turns", "@rejected_turns", "@tool_definitions"
"""Columns: the turns; those with the rejected answer of a preference pair; tool definitions as JSON."""


def to_series(turns: Turns, name: str) -> pl.Series:
    """One list of turns a conversation, List(message_dtype()); null where nothing could be read. Roles are written
    canonically, ``train`` as resolved."""
    roles = pl.Series(np.where(turns.roles == UNKNOWN, len(ROLES), turns.roles)).replace_strict(
        list(range(len(ROLES) + 1)), [*ROLES, None], return_dtype=pl.String
    )
    frame = turns.frame.with_columns(roles.alias("role"), pl.Series("train", turns.train))
    inner = frame.select(FIELDS).to_struct("turn").cast(message_dtype())
    chunk = inner.to_arrow(compat_level=pl.CompatLevel.oldest())
    mask = pa.array(~turns.present) if not turns.present.all() else None
    lists = pa.LargeListArray.from_arrays(pa.array(offsets(turns.counts).astype(np.int64)), chunk, mask=mask)
    return pl.Series(name, pl.from_arrow(lists))


def flatten(series: pl.Series) -> tuple[pl.DataFrame, Int64s, Mask]:
    """The structs of a List(Struct) column, the count of each list, and whether it is there at all."""
    counts = series.list.len().fill_null(0).to_numpy().astype(np.int64)
    filled = series.filter(pl.Series(counts > 0)).explode()
    frame = filled.struct.unnest() if len(filled) else pl.DataFrame(schema=_schema(series))
    return frame, counts, series.is_not_null().to_numpy()


def _schema(series: pl.Series) -> Any:
    inner = series.dtype.inner  # type: ignore[attr-defined]
    return {field.name: field.dtype for field in inner.fields}


def from_series(series: pl.Series, column: str = "") -> Turns:
    """The turns of canonical lists, as ``to_series`` made them.

    Args:
        column: where they were read, for findings; "" where the record as a whole is meant.
    """
    frame, counts, present = flatten(series)
    codes = frame["role"].replace_strict(
        ROLES, list(range(len(ROLES))), default=UNKNOWN, return_dtype=pl.Int8
    )
    n = len(frame)
    return Turns(
        counts=counts,
        records=np.arange(len(series), dtype=np.int64),
        roles=codes.fill_null(UNKNOWN).to_numpy(),
        frame=frame,
        train=frame["train"].fill_null(True).to_numpy(),
        origins=np.zeros(n, np.int16),
        places=within(counts),
        columns=(column,),
        present=present,
    )


def nested(turns: Turns, records: int, name: str) -> pl.Series:
    """Lists of conversations, one list a record: of records that hold several."""
    inner = to_series(turns, name).to_arrow(compat_level=pl.CompatLevel.oldest())
    counts = np.bincount(turns.records, minlength=records).astype(np.int64)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets(counts).astype(np.int64)), inner)
    return pl.Series(name, pl.from_arrow(lists))


def conversations(series: pl.Series, column: str = "") -> Turns:
    """The turns of a column made by ``to_series`` or ``nested``; ``column`` as for ``from_series``."""
    if series.dtype.inner == pl.List(message_dtype()):  # type: ignore[attr-defined]
        counts = series.list.len().fill_null(0).to_numpy().astype(np.int64)
        filled = series.filter(pl.Series(counts > 0))
        inner = filled.explode() if len(filled) else pl.Series(series.name, [], pl.List(message_dtype()))
        return replace(from_series(inner, column), records=owners(counts))
    return from_series(series, column)
