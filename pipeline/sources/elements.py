"""The elements of a JSON array, found in a stream without decoding it: commas and brackets outside of strings.

Only the outer structure is judged here. What an element holds is judged when it is decoded, so that a broken
element costs one record wherever the brackets still tell where it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.batch import Int64s, Mask
from pipeline.sources.blocks import End
from pipeline.sources.quotes import Borders

_CHANGE = np.zeros(256, np.int8)
_CHANGE[[ord("["), ord("{")]] = 1
_CHANGE[[ord("]"), ord("}")]] = -1
_SOLID = np.ones(256, np.bool_)
_SOLID[list(b" \t\r\n")] = False  # the white space of JSON: a form feed or a NUL is none
_MARK = _CHANGE != 0
_MARK[ord(",")] = True


@dataclass(slots=True)
class Scanner:
    """Follows the nesting of a JSON text over its pieces.

    ``depth`` is the nesting behind the last byte seen, ``closed`` the offset in the last piece behind the bracket
    that brought it to 0 (-1: not yet).
    """

    depth: int = 0
    in_string: bool = False
    escaped: bool = False
    closed: int = -1

    def commas(self, data: bytes) -> Int64s:
        """Offsets of the commas between elements (nesting 1) in the next piece of the text, up to its end."""
        array = np.frombuffer(data, np.uint8)
        quotes = self._quotes(array)
        inside = self.in_string
        marks = np.flatnonzero(_MARK[array])
        outside = ((np.searchsorted(quotes, marks) + inside) & 1) == 0
        marks = marks[outside]
        bytes_ = array[marks]
        depth = np.cumsum(_CHANGE[bytes_], dtype=np.int64) + self.depth
        ends = np.flatnonzero(depth == 0)
        self.in_string = bool((len(quotes) + inside) & 1)
        if len(ends):
            self.closed = int(marks[ends[0]]) + 1
            marks, bytes_, depth = marks[: ends[0]], bytes_[: ends[0]], depth[: ends[0]]
            self.depth = 0
        elif len(depth):
            self.depth = int(depth[-1])
        commas: Int64s = marks[(bytes_ == ord(",")) & (depth == 1)]
        return commas

    def _quotes(self, array: npt.NDArray[np.uint8]) -> Int64s:
        """Offsets of the quotes that open or close a string."""
        quote = array == ord('"')
        slashes = np.flatnonzero(array == ord("\\"))
        first = self.escaped
        self.escaped = False
        if len(slashes) or first:
            skip = _escaped(slashes, first)
            inside = skip[skip < len(array)]
            quote[inside] = False
            self.escaped = bool(len(skip) and skip[-1] == len(array))
        return np.flatnonzero(quote)


def _escaped(slashes: Int64s, first: bool) -> Int64s:
    """Offsets escaped by a backslash: behind each odd run of them. ``first``: the first byte is escaped already."""
    if first:
        rest = slashes[slashes > 0] if len(slashes) and slashes[0] == 0 else slashes
        return np.concatenate([np.zeros(1, np.int64), _escaped(rest, False)])
    if not len(slashes):
        return slashes
    starts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    lengths = np.diff(starts, append=len(slashes))
    escaped: Int64s = slashes[starts[lengths % 2 == 1]] + lengths[lengths % 2 == 1]
    return escaped


def split(data: bytes, final: bool) -> Borders:
    """The elements in a piece of a list's inside that starts at an element; each ends behind its comma."""
    ends = Scanner(depth=1).commas(data) + 1
    if final and data and (not len(ends) or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    return Borders(ends, ends, np.arange(len(ends)))


def element_end(begun: bytes) -> End:
    """The end of an element of which ``begun`` has been seen: behind its comma."""
    scanner = Scanner(depth=1)
    scanner.commas(begun)

    def behind(data: bytes, final: bool) -> int:
        commas = scanner.commas(data)
        return int(commas[0]) + 1 if len(commas) else len(data) if final else -1

    return behind


def solid(data: bytes, commas: Int64s, stop: int) -> Mask:
    """Whether each piece between the commas, and the last one up to ``stop``, holds more than white space."""
    starts, ends = np.concatenate([[0], commas + 1]), np.append(commas, stop)
    array = np.append(_SOLID[np.frombuffer(data, np.uint8)], np.False_)
    any_ = np.logical_or.reduceat(array, np.stack([starts, ends], 1).ravel())[::2]
    return np.asarray(any_ & (starts < ends))
