"""Boxes from several columns: one column a coordinate, joined to one list a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Mask

if TYPE_CHECKING:
    import polars as pl


def joined(parts: Sequence[pl.Series]) -> tuple[pl.Series, Mask]:
    """List(List(Float64)) from List(Float64) columns, one a coordinate; null where a part is null.

    Also says which records have parts of different lengths (bool [n]): they are null, too.
    """
    import polars as pl
    import pyarrow as pa

    lengths = [part.list.len().fill_null(0).to_numpy().astype(np.int64) for part in parts]
    whole = np.logical_and.reduce([part.is_not_null().to_numpy() for part in parts])
    uneven = whole & np.logical_or.reduce([length != lengths[0] for length in lengths])
    keep = whole & ~uneven
    flat = [
        part.filter(pl.Series(keep)).explode(empty_as_null=False, keep_nulls=False).to_numpy()
        for part in parts
    ]
    numbers = np.stack(flat, axis=1).reshape(-1) if flat else np.empty(0)
    count = len(numbers) // max(len(parts), 1)
    inner = pa.LargeListArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int64) * len(parts)), pa.array(numbers)
    )
    offsets = np.concatenate([[0], np.cumsum(np.where(keep, lengths[0], 0))])
    boxes = pa.LargeListArray.from_arrays(pa.array(offsets), inner, mask=pa.array(~keep))
    return pl.Series(pl.from_arrow(boxes)), uneven
