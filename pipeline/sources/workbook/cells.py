"""Stored cells of consecutive rows, as arrays: what both XML readers deliver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


class Stored(IntEnum):
    """How a cell's value is stored (ECMA-376 part 1, 18.18.11)."""

    BLANK = 0
    NUMBER = 1
    SHARED = 2  # index into the shared texts
    TEXT = 3  # the text itself
    BOOLEAN = 4
    ERROR = 5
    ISO_DATE = 6
    FORMULA_EMPTY = 7  # a formula without a stored value
    INVALID = 8  # of no known type
    FORMULA_TEXT = 9  # the text that a formula gave

    @property
    def is_text(self) -> bool:
        """Whether an empty value is a value, too."""
        return self in (Stored.TEXT, Stored.FORMULA_TEXT)


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of consecutive rows.

    Attributes:
        rows: int64 [n], number of each row, from 1.
        row_of: int64 [m], index into ``rows`` of each cell.
        columns: int32 [m], from 0 for column A.
        stored: uint8 [m], see ``Stored``.
        styles: int32 [m], index of the cell's style.
        shared: int64 [s], for the cells that are ``SHARED``, in their order: index of the text; -1 for none such.
        values: string [v], for all other cells that have a value, in their order: the value as it is stored.
    """

    rows: Int64s
    row_of: Int64s
    columns: Int32s
    stored: Bytes
    styles: Int32s
    shared: Int64s
    values: pa.StringArray

    def valued(self) -> Int64s:
        """Indices of the cells that ``values`` belongs to, int64 [v]."""
        none = (self.stored == Stored.BLANK) | (self.stored == Stored.FORMULA_EMPTY)
        return np.flatnonzero(~(none | (self.stored == Stored.SHARED)))
