"""Arrow's kernels by their names.

``pyarrow.compute`` makes a documented Python function of each kernel when it is imported, and so does the first call
of a method like ``Array.take``: that takes longer than reading a small workbook.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow._compute import (
    CastOptions,
    FilterOptions,
    MatchSubstringOptions,
    ReplaceSubstringOptions,
    SetLookupOptions,
    TakeOptions,
    call_function,
)

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def take(values: pa.Array, index: Int64s, missing: Mask | None = None) -> Any:
    """The values at an index, null where it is ``missing``."""
    return call_function("array_take", [values, pa.array(index, mask=missing)], TakeOptions(boundscheck=True))


def chosen(values: pa.Array, mask: Mask) -> Any:
    """The values where the mask is true."""
    return call_function("array_filter", [values, pa.array(mask)], FilterOptions())


def cast(values: pa.Array, to: pa.DataType) -> Any:
    """The values in another type. Raises ``pa.ArrowInvalid`` where one cannot be."""
    return call_function("cast", [values], CastOptions(to))


def matching(texts: pa.StringArray, pattern: str) -> Mask:
    """Which texts a regular expression is found in."""
    found = call_function("match_substring_regex", [texts], MatchSubstringOptions(pattern))
    return mask(found)


def among(texts: pa.StringArray, those: pa.StringArray) -> Mask:
    """Which texts are among those."""
    return mask(call_function("is_in", [texts], SetLookupOptions(those, skip_nulls=False)))


def replaced(texts: pa.StringArray, places: Int64s, others: Sequence[str | None] | pa.StringArray) -> Any:
    """Texts with others at some places, ascending."""
    if not len(places):
        return texts
    at = np.zeros(len(texts), np.bool_)
    at[places] = True
    return call_function("replace_with_mask", [texts, pa.array(at), pa.array(others, pa.string())])


def substituted(texts: pa.StringArray, old: str, new: str) -> Any:
    """Texts with each ``old`` in them replaced."""
    return call_function("replace_substring", [texts], ReplaceSubstringOptions(old, new))


def mask(values: pa.BooleanArray) -> Mask:
    """Booleans without a null as an array."""
    made: Mask = np.unpackbits(
        np.frombuffer(values.buffers()[1], np.uint8), count=len(values) + values.offset, bitorder="little"
    )[values.offset :].view(np.bool_)
    return made
