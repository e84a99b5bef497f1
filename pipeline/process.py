"""Settings of the whole process: how it ends on SIGTERM and SIGINT, and how many threads libraries start."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from pipeline.errors import Exit

STOPS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


class Stopped(BaseException):
    """Raised on SIGTERM and SIGINT: the program cleans up, then the process ends with ``exit``."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit = STOPS[signal.Signals(number)]


def raise_on_stops() -> None:
    """Let both signals raise ``Stopped`` in the main thread."""
    for number in STOPS:
        signal.signal(number, _raise_stopped)


def _raise_stopped(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay both signals until the end of the block. Threads other than the main thread receive no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)

    handlers = {number: signal.signal(number, remember) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if received:
            os.kill(os.getpid(), received[0])


def use_one_thread() -> None:
    """Limit polars to one thread in this process and its children, unless the user has set ``POLARS_MAX_THREADS``.

    The engines run one partition per process, and more threads would only compete. Call it before polars is imported.
    """
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
