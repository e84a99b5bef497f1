"""Decoded values become columns: lists laid flat, structs member by member, in the types of ``fields.py``."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw

from pipeline.cells import counting, exact, turns
from pipeline.cells.reads import Reading, element_of
from pipeline.cells.turns import MessageKeys
from pipeline.fields import FieldType, Kind

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


def as_column(values: list[Any], reading: Reading) -> pl.Series:
    """The values of a reading, one a record (None or UNSET: none), as a column of its type."""
    import polars as pl

    type_ = reading.type
    dtype = type_.dtype()
    if not dtype.is_nested():
        absent = not reading.field.required or type_.kind is Kind.JSON
        return pl.Series(_plain(values, type_) if absent else values, dtype=dtype)
    series = pl.Series(pl.from_arrow(_array(values, type_, reading.field.message_keys)))
    return series if series.dtype == dtype else series.cast(dtype)


def _plain(values: list[Any], type_: FieldType) -> list[Any]:
    """The values with None for what is not there; raw JSON as text."""
    if type_.kind is Kind.JSON:
        return [_json(value) for value in values]
    # ``in`` compares by identity first: cheap where the first value is UNSET, and rare otherwise.
    return [None if value is UNSET else value for value in values] if UNSET in values else values


def _json(value: Any) -> str | None:
    if not isinstance(value, Raw):
        return None if value is UNSET else value
    text = bytes(value)
    if text in (b"", b"null"):
        return None
    return exact.written(exact.parse(text, counting.MOST_DEPTH)) if text[:1] in b"[{" else text.decode()


def _array(values: list[Any], type_: FieldType, keys: MessageKeys) -> pa.Array:
    import pyarrow as pa

    match type_.kind:
        case Kind.STRUCT:
            return _structs(values, type_, keys)
        case Kind.BOXES:
            return _lists(values, lambda boxes: _lists(boxes, _doubles))
        case Kind.MESSAGES:
            return _messages(values, keys)
        case Kind.INTEGER:
            return pa.array(_plain(values, type_), pa.int64())
        case Kind.NUMBER:
            return pa.array(_plain(values, type_), pa.float64())
        case Kind.BOOLEAN:
            return pa.array(_plain(values, type_), pa.bool_())
        case _:
            item = element_of(type_)
            if item is None:
                return pa.array(_plain(values, type_), pa.large_string())
            return _lists(values, lambda flat: _array(flat, item, keys))


def _lists(values: list[Any], build: Any) -> pa.Array:
    """A list array; ``build`` makes the array of all elements."""
    import pyarrow as pa

    present = [isinstance(value, list) for value in values]
    whole = all(present)
    lists = values if whole else [value for value, there in zip(values, present, strict=True) if there]
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    offsets = np.zeros(len(values) + 1, np.int64)
    if whole:
        np.cumsum(lengths, out=offsets[1:])
    else:
        offsets[1:][np.array(present, bool)] = lengths
        np.cumsum(offsets, out=offsets)
    inner = build(list(chain.from_iterable(lists)))
    mask = None if whole else pa.array([not there for there in present])
    return pa.LargeListArray.from_arrays(pa.array(offsets), inner, mask=mask)


def _doubles(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(np.array(values, np.float64))


def _structs(values: list[Any], type_: FieldType, keys: MessageKeys) -> pa.Array:
    import pyarrow as pa

    present = [isinstance(value, msgspec.Struct) for value in values]
    arrays = []
    for i, (_, member) in enumerate(type_.fields):
        name = f"m{i}"
        inner = [
            getattr(value, name) if there else None for value, there in zip(values, present, strict=True)
        ]
        arrays.append(_array(inner, member, keys))
    mask = None if all(present) else pa.array([not there for there in present])
    return pa.StructArray.from_arrays(arrays, [name for name, _ in type_.fields], mask=mask)


def _messages(values: list[Any], keys: MessageKeys) -> pa.Array:
    lists = [
        [turns.Turn(content=value, content_kind="text")] if isinstance(value, str) else value
        for value in values
    ]
    return _lists(lists, lambda flat: turns.columns(flat, keys))
