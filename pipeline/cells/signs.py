"""Searches for one byte in a block of bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def rare(data: bytes, byte: int, behind: int) -> npt.NDArray[np.int64]:
    """Offsets of a byte that few texts hold, where at least ``behind`` bytes follow.

    As long as it is rare, it is looked for from one to the next, which is several times faster than to compare all.
    """
    end, find = len(data) - behind, data.find
    places: list[int] = []
    at = find(byte, 0, end)
    for _ in range(len(data) >> 10):
        if at < 0:
            break
        places.append(at)
        at = find(byte, at + 1, end)
    if at < 0:
        return np.array(places, np.int64)
    return np.flatnonzero(np.frombuffer(data, np.uint8)[:end] == byte)
