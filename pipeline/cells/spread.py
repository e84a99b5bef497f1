"""Values of some records as a column of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Mask

if TYPE_CHECKING:
    import polars as pl


def scatter(values: pl.Series, there: Mask) -> pl.Series:
    """A column with the values, in order, where ``there`` (bool [n]) is true, and null elsewhere."""
    import polars as pl

    if there.all():
        return values
    index = pl.Series(np.cumsum(there) - 1, dtype=pl.Int64).set(pl.Series(~there), None)
    return values.to_frame("v").select(pl.col("v").gather(index)).to_series()
