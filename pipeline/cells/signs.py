"""Where a sign stands in a block of bytes.

The answer is written over the last one: a fresh array a block costs more in page faults than the search itself.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

KEPT_BYTES = 2**23
"""Largest block whose answer's memory is kept."""


class _Buffers(threading.local):
    """Buffers of one thread, by slot."""

    def __init__(self) -> None:
        self.slots: dict[int, npt.NDArray[np.bool_]] = {}


_BUFFERS = _Buffers()


def signs(array: npt.NDArray[np.uint8], sign: int, slot: int = 0) -> npt.NDArray[np.bool_]:
    """Bool [bytes]: where ``sign`` stands. It holds until the next answer with the same slot in the same thread."""
    found = _buffer(len(array), slot)
    np.equal(array, sign, out=found)
    return found


def up_to(array: npt.NDArray[np.uint8], sign: int, slot: int = 0) -> npt.NDArray[np.bool_]:
    """Bool [bytes]: where ``sign`` stands or one before it in ASCII. It holds as long as that of ``signs``."""
    found = _buffer(len(array), slot)
    np.less_equal(array, sign, out=found)
    return found


def _buffer(size: int, slot: int) -> npt.NDArray[np.bool_]:
    if size > KEPT_BYTES:
        return np.empty(size, np.bool_)
    buffer = _BUFFERS.slots.get(slot)
    if buffer is None or len(buffer) < size:
        buffer = _BUFFERS.slots[slot] = np.empty(size + size // 4, np.bool_)
    return buffer[:size]


def rare(data: bytes, sign: int, behind: int) -> npt.NDArray[np.int64]:
    """Offsets of a sign that few texts hold, where at least ``behind`` bytes follow.

    As long as it is rare, it is looked for from one to the next, which is several times faster than ``signs``.
    """
    end, find = len(data) - behind, data.find
    places: list[int] = []
    at = find(sign, 0, end)
    for _ in range(len(data) >> 10):
        if at < 0:
            break
        places.append(at)
        at = find(sign, at + 1, end)
    if at < 0:
        return np.array(places, np.int64)
    return np.flatnonzero(signs(np.frombuffer(data, np.uint8)[:end], sign))
