"""Columns that a typed parser of delimited text may read straight into their type: where it accepts a cell, it reads
what the cell grammar reads. What it does not accept is read as text, and the grammar decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.cells.reads import readings
from pipeline.fields import Field, Kind

if TYPE_CHECKING:
    import polars as pl


def straight(
    fields: Sequence[Field], header: Sequence[str], decimal: str
) -> dict[str, pl.DataType | type[pl.DataType]]:
    """Type of each such column: one number, integer or boolean is read from it, and nothing else."""
    import polars as pl

    types = {Kind.INTEGER: pl.Int64, Kind.NUMBER: pl.Float64, Kind.BOOLEAN: pl.Boolean}
    found: dict[str, pl.DataType | type[pl.DataType]] = {}
    mixed: set[str] = set()
    for reading in readings(fields):
        kind, name = reading.type.kind, reading.steps[0].key if reading.steps else ""
        read = (
            types.get(kind)
            if len(reading.steps) == 1 and (kind is not Kind.NUMBER or decimal == ".")
            else None
        )
        if read is None or found.setdefault(name, read) is not read:
            mixed.add(name)
    return {name: type_ for name, type_ in found.items() if name in header and name not in mixed}


def flat(fields: Sequence[Field]) -> dict[str, pl.DataType | type[pl.DataType]]:
    """Type of each top-level key of a JSON record, where nothing but texts, numbers, integers and booleans is read,
    each from a key of its own; empty otherwise."""
    kinds = (Kind.TEXT, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN)
    wanted = readings(fields)
    names = [
        reading.steps[0].key for reading in wanted if len(reading.steps) == 1 and not reading.steps[0].lists
    ]
    if len(set(names)) < len(wanted) or any(reading.type.kind not in kinds for reading in wanted):
        return {}
    return {name: reading.type.dtype() for name, reading in zip(names, wanted, strict=True)}
