"""List columns of a mapped table as flat values: any row is a view, whatever chunk it lies in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


class RaggedColumn:
    """A list column, read without a copy.

    Args:
        column: lists of numbers, or of fixed-size lists of numbers; no list is null.

    Attributes:
        lengths: int64 [rows].
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._starts: list[npt.NDArray[np.int32]] = []
        self._values: list[Values] = []
        for chunk in column.chunks:
            self._starts.append(chunk.offsets.to_numpy())
            self._values.append(_flat(chunk.values))
        sizes = np.array([len(chunk) for chunk in column.chunks], np.int64)
        self._ends = np.cumsum(sizes)
        self._firsts = self._ends - sizes
        lengths = [np.diff(starts) for starts in self._starts]
        self.lengths: Int64s = np.concatenate([np.empty(0, np.int64), *lengths]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, indices: Iterable[int] | Int64s) -> list[Values]:
        """The values of some rows, each a view into the mapped file."""
        wanted = np.asarray(indices, np.int64)
        chunks = np.searchsorted(self._ends, wanted, side="right")
        return [
            self._values[chunk][starts[place] : starts[place + 1]]
            for chunk, place in zip(chunks.tolist(), (wanted - self._firsts[chunks]).tolist(), strict=True)
            for starts in (self._starts[chunk],)
        ]


def _flat(values: pa.Array) -> Values:
    if pa.types.is_fixed_size_list(values.type):
        size = values.type.list_size
        inner = values.values.slice(values.offset * size, len(values) * size)
        return inner.to_numpy(zero_copy_only=True).reshape(-1, size)  # type: ignore[no-any-return]
    return values.to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]
