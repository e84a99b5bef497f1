"""Plain lines of JSON: flat objects that hold each wanted key once and nothing else, parsed straight into columns.

Polars' parser of JSON Lines is a third faster than typed decoding and laying out as columns, and as strict, save in
what is proven here beforehand or behind it: it skips blank lines, keeps one of two equal keys, passes over other
keys, takes any value as text, and makes NUL of half a surrogate pair. A block with anything of the kind, or with
anything that is not there, is left to the decoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pipeline.cells.signs import rare, signs, up_to
from pipeline.cells.text import is_encoded_once, is_sound

if TYPE_CHECKING:
    import polars as pl

LF, QUOTE, COLON, ESCAPE = 10, 34, 58, 92
DOUBTFUL = 1_000
"""Colons in a block that are more than its keys, for which what stands before each is looked at."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class PlainLines:
    """Parses blocks of whole lines, each with its line feed.

    Attributes:
        types: type of each key that is read: String, Int64, Float64 or Boolean.
    """

    types: Mapping[str, pl.DataType | type[pl.DataType]]

    def __call__(self, data: bytes) -> pl.DataFrame | None:
        """The columns, one row a line, no value null and no text to be looked at; None for the careful way."""
        import polars as pl

        if b"\r" in data:
            return None
        array = np.frombuffer(data, np.uint8)
        escaped = array[rare(data, ESCAPE, 1) + 1]
        coded = bool((escaped == ord("u")).any())
        if coded and (_SURROGATE.search(data) or not is_sound(data, json=True)):
            return None
        try:
            frame = pl.read_ndjson(data, schema=dict(self.types))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return None
        whole = frame.height == np.count_nonzero(signs(array, LF))  # a NUL as it stands is no JSON
        if (
            whole
            and is_encoded_once(data)
            and self._only_wanted(data, array, escaped, frame)
            and _as_written(data, frame)
        ):
            return frame
        return None

    def _only_wanted(
        self, data: bytes, array: npt.NDArray[np.uint8], escaped: npt.NDArray[np.uint8], frame: pl.DataFrame
    ) -> bool:
        """Whether each line holds each key once and no other, and texts where texts are read.

        Every key is there, since no value is null: where there are no more colons behind keys than that, no key is
        there twice, and none that is not read. A value that is no text has two quotes less than one, or a colon
        more, or begins with a bracket when it is made one.
        """
        import polars as pl

        if any(column.null_count() for column in frame.get_columns()):
            return False
        expected = len(self.types) * frame.height
        if _keys(array, expected) != expected:
            return False
        texts = [name for name, type_ in self.types.items() if type_ == pl.String]
        quotes = int(np.count_nonzero(signs(array, QUOTE))) - int(np.count_nonzero(escaped == QUOTE))
        if quotes != 2 * (len(self.types) + len(texts)) * frame.height:
            return False
        return b"[" not in data or not any(frame[name].str.starts_with("[").any() for name in texts)


def _keys(array: npt.NDArray[np.uint8], expected: int) -> int:
    """Colons behind a quote, with white space between or without, in texts too: no fewer than there are keys."""
    found = up_to(array[:-1], QUOTE)  # quotes, white space, and exclamation marks: rarely more than the keys
    found &= signs(array[1:], COLON, 1)
    count = int(np.count_nonzero(found))
    if not expected < count <= expected + DOUBTFUL:
        return count
    places = np.flatnonzero(found)
    for at in places[array[places] != QUOTE].tolist():
        while at >= 0 and array[at] <= ord(" "):
            at -= 1
        count -= array[at] != QUOTE
    return count


def _as_written(data: bytes, frame: pl.DataFrame) -> bool:
    """Whether the numbers are surely those that the decoder gives: no double from an integer beyond 64 bits, whose
    digits it would lose, and no zero that may have had a sign."""
    import polars as pl

    for column in frame.get_columns():
        if column.dtype != pl.Float64:
            continue
        least, most = column.min(), column.max()
        if not -(2.0**63) < least <= most < 2.0**63:  # type: ignore[operator]
            return False
        if least <= 0.0 <= most and (column == 0).any() and b"-0" in data:  # type: ignore[operator]
            return False
    return True
