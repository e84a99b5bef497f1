"""List columns laid flat: one series of values and the count of each record. Judges work on these, never on
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipeline.arrow_lists import elements, owners, within
from pipeline.batch import Int64s, Mask

WORDS, BOXES, LABELS, INDEX = "@words", "@boxes", "@labels", "@word_index"
"""Columns of the frame: words, their boxes and labels, and the place of each word in the record as read."""
MOST_HITS = 20
"""Places shown of one rule in one record; a page of ten thousand bad boxes needs no ten thousand lines."""
SHOWN_CHARACTERS = 80
"""Longest value shown in a finding."""


@dataclass(frozen=True)
class Ragged:
    """A list column laid flat.

    Attributes:
        values: the elements of all lists, end to end.
        lengths: int64 [records], 0 for a null list.
        present: bool [records], false for a null list.
    """

    values: pl.Series
    lengths: Int64s
    present: Mask

    @classmethod
    def of(cls, column: pl.Series) -> Ragged:
        """Lay a list column flat."""
        return cls(
            elements(column),
            column.list.len().fill_null(0).cast(pl.Int64).to_numpy(),
            column.is_not_null().to_numpy(),
        )

    @cached_property
    def owner(self) -> Int64s:
        """int64 [values], the record each element belongs to."""
        return owners(self.lengths)

    @cached_property
    def place(self) -> Int64s:
        """int64 [values], position of each element within its record."""
        return within(self.lengths)

    def of_records(self, keep: Mask) -> Ragged:
        """The same records, those where ``keep`` is false made null."""
        if keep.all():
            return self
        lengths = np.where(keep, self.lengths, 0)
        return Ragged(self.values.filter(pl.Series(keep[self.owner])), lengths, self.present & keep)

    def of_elements(self, keep: Mask) -> Ragged:
        """The elements where ``keep`` (bool [values]) is true."""
        if keep.all():
            return self
        return Ragged(self.values.filter(pl.Series(keep)), per_record(self.lengths, keep), self.present)

    def nested(self) -> pl.Series:
        """The list column again."""
        return nest(self.values.to_arrow(compat_level=pl.CompatLevel.oldest()), self.lengths, self.present)


def per_record(lengths: Int64s, hits: Mask) -> Int64s:
    """Number of true elements in each record: int64 [records]."""
    running = np.zeros(len(hits) + 1, np.int64)
    np.cumsum(hits, out=running[1:])
    ends = np.cumsum(lengths)
    counts: Int64s = running[ends] - running[ends - lengths]
    return counts


def nest(values: pa.Array, lengths: Int64s, present: Mask) -> pl.Series:
    """The list column of flat values; null where ``present`` is false."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return pl.Series(pa.LargeListArray.from_arrays(pa.array(starts), values, mask=pa.array(~present)))


def box_array(boxes: npt.NDArray[np.int16] | npt.NDArray[np.float32]) -> pa.Array:
    """Boxes [n, 4] as an Arrow array of fixed-size lists."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(boxes).reshape(-1)), 4)


def shown_hits(owner: Int64s, hits: Mask) -> Int64s:
    """Positions of the true elements, at most ``MOST_HITS`` of one record; ``owner`` is sorted."""
    found = np.flatnonzero(hits)
    if len(found) <= MOST_HITS:
        return found
    records = owner[found]
    first = np.searchsorted(records, records, side="left")
    return found[np.arange(len(found)) - first < MOST_HITS]


def indexed(places: Int64s) -> list[str]:
    """``[3]`` for each place."""
    return [f"[{place}]" for place in places.tolist()]
