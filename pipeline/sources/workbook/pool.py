"""Texts with what must be known of each: taken by index, so that a text is copied once, into its column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.sources.workbook.cells import Mask
from pipeline.sources.workbook.flat import flat

LONGEST_CELL = 32_767
"""Characters (UTF-16 code units) that one cell can hold: the application's own limit."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Texts by index.

    Attributes:
        texts: string [n]; null for a text that is not there.
        blank: bool [n], whether it is null or "".
        escaped: bool [n], whether escapes were decoded in it.
        full: bool [n], whether it is exactly as long as a cell can hold.
    """

    texts: pa.StringArray
    blank: Mask
    escaped: Mask
    full: Mask

    def __len__(self) -> int:
        return len(self.texts)


def pool(texts: pa.StringArray, escaped: Mask | None = None) -> Pool:
    """A pool of texts; none had escapes unless ``escaped`` says so."""
    lengths = np.diff(flat(texts)[1])
    full = np.zeros(len(texts), np.bool_)
    long = np.flatnonzero(lengths >= LONGEST_CELL)
    if len(long):
        some = texts.take(pa.array(long)).to_pylist()
        full[long] = [len(text.encode("utf-16-le")) // 2 == LONGEST_CELL for text in some]
    return Pool(texts, lengths == 0, np.zeros(len(texts), np.bool_) if escaped is None else escaped, full)


def joined(pools: list[Pool]) -> Pool:
    """All of them, one after the other."""
    if len(pools) == 1:
        return pools[0]
    return Pool(
        pa.concat_arrays([p.texts for p in pools]),
        np.concatenate([p.blank for p in pools]),
        np.concatenate([p.escaped for p in pools]),
        np.concatenate([p.full for p in pools]),
    )
