"""Ragged arrays: Arrow lists as flat numpy values with lengths, and back, without a copy where possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.batch import Mask

if TYPE_CHECKING:
    import polars as pl

Int64s = npt.NDArray[np.int64]


def flatten(column: pa.Array | pa.ChunkedArray) -> tuple[Any, Int64s]:
    """The values of a list column, end to end, and the length of each list (int64 [n], 0 for null).

    The values are a numpy array; fixed-size inner lists give a matrix [values, size].
    """
    import pyarrow.compute as pc

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = array.flatten()
    if pa.types.is_fixed_size_list(values.type):
        size = values.type.list_size
        return values.flatten().to_numpy(zero_copy_only=False).reshape(-1, size), lengths
    return values.to_numpy(zero_copy_only=False), lengths


def elements(column: pl.Series) -> pl.Series:
    """The elements of all lists of a column, end to end; a null list has none.

    An Arrow list array may hold values under a null list, and polars explodes these too.
    """
    import polars as pl

    found = column.explode(empty_as_null=False, keep_nulls=False)
    if not column.null_count() or len(found) == column.list.len().sum():
        return found
    array: Any = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    return pl.Series(column.name, pl.from_arrow(array.flatten()))


def offsets(lengths: Int64s) -> npt.NDArray[np.int32]:
    """Arrow list offsets of lists with these lengths: int32 [n + 1].

    Raises ``OverflowError`` for 2^31 values and more.
    """
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    if out[-1] > np.iinfo(np.int32).max:
        raise OverflowError("more than 2^31 values in one batch")
    return out.astype(np.int32)


def lists(values: Any, lengths: Int64s, type_: pa.ListType) -> pa.ListArray:
    """A list column from flat values (a matrix for fixed-size inner lists) and lengths: the inverse of ``flatten``."""
    inner = type_.value_type
    if pa.types.is_fixed_size_list(inner):
        numbers = pa.array(np.ascontiguousarray(values).reshape(-1), inner.value_type)
        items: pa.Array = pa.FixedSizeListArray.from_arrays(numbers, type=inner)
    else:
        items = pa.array(values, inner)
    return pa.ListArray.from_arrays(pa.array(offsets(lengths)), items, type=type_)


def within(lengths: Int64s) -> Int64s:
    """Index of each value within its list: int64 [sum of lengths]."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)


def owners(lengths: Int64s) -> Int64s:
    """Index of the list that each value belongs to: int64 [sum of lengths]."""
    return np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)


def scatter(values: pl.Series, present: Mask) -> pl.Series:
    """A column with the values, in order, where ``present`` (bool [n]) is true, and null elsewhere."""
    import polars as pl

    if present.all():
        return values
    index = pl.Series(np.cumsum(present) - 1, dtype=pl.Int64).set(pl.Series(~present), None)
    return values.to_frame("v").select(pl.col("v").gather(index)).to_series()
