"""Whether bytes are UTF-8, at memory speed: Arrow's validator is forty times faster than decoding to a Python text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def is_utf8(data: bytes | memoryview) -> bool:
    """Whether the bytes are valid UTF-8 as a whole (strict: no surrogates, no overlong forms)."""
    if isinstance(data, bytes) and data.isascii():
        return True
    borders = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, borders, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def unfinished(data: bytes | bytearray) -> int:
    """Number of bytes at the end that begin a character and do not finish it."""
    for length in range(1, min(4, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if size > length else 0
        if byte < 0x80:
            return 0
    return 0
