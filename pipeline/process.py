"""The process: SIGTERM and SIGINT, and how many threads libraries may start."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from pipeline.errors import Exit

# SIGTERM and SIGINT: what they raise, and steps that they may not part.


STOPS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


class Stopped(BaseException):
    """A stop was asked for: everything is left in order, then the process ends with ``exit``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit = STOPS[signal.Signals(number)]


def raise_on_stops() -> None:
    """Have both signals raise ``Stopped`` in the main thread."""
    for number in STOPS:
        signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


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


# Threads of libraries. Work is spread over processes, a partition each; threads below that wait for each
# other.


def one_each() -> None:
    """Have polars work with one thread here and in the processes that are started from here, unless the user has set
    ``POLARS_MAX_THREADS``. It counts only before polars is imported."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
