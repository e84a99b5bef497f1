"""Steps that SIGTERM and SIGINT may not part."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off a stop until the block is done; it then takes effect. Outside the main thread nothing is put off: there
    signals are not received."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    held = {number: signal.signal(number, note) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if came:
            os.kill(os.getpid(), came[0])
