"""Texts as one run of bytes, to look for what is rare in all of them at once, and to replace it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.sources.workbook.cells import Bytes, Int64s


def flat(texts: pa.StringArray | pa.BinaryArray) -> tuple[Bytes, Int64s]:
    """Bytes of texts, and where each begins, int64 [n + 1], the last place being the end. Nulls are empty."""
    _, places, data = texts.buffers()
    if places is None or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    offsets = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def owners(offsets: Int64s, places: Int64s) -> Int64s:
    """Indices of the texts that hold the given places of the run, ascending, each once."""
    found = np.searchsorted(offsets, places, side="right") - 1
    once: Int64s = found[np.flatnonzero(np.diff(found, prepend=-1))]
    return once


def replaced(texts: pa.StringArray, places: Int64s, others: Sequence[str | None] | pa.StringArray) -> Any:
    """Texts with others (string [k]) at some places (int64 [k], ascending)."""
    if not len(places):
        return texts
    at = np.zeros(len(texts), np.bool_)
    at[places] = True
    return pc.replace_with_mask(texts, pa.array(at), pa.array(others, pa.string()))
