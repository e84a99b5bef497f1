"""Tasks that a sandbox must survive. They run in its child."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.readers.sandbox_child import TaskFault

Request = Mapping[str, Any]


def echo(request: Request) -> Iterator[Any]:
    yield dict(request)
    yield b"\x00" * request.get("bytes", 0)
    yield {"pid": os.getpid(), "pandas": "pandas" in sys.modules, "collects": gc.isenabled()}


def hang(_: Request) -> Iterator[Any]:
    yield {"pid": os.getpid()}
    time.sleep(600)


def spin(_: Request) -> Iterator[Any]:
    yield {"pid": os.getpid()}
    while True:
        pass


def slow_reader(request: Request) -> Iterator[Any]:
    for i in range(request["count"]):
        yield {"i": i}


def greedy(_: Request) -> Iterator[Any]:
    yield {"held": len(bytearray(2**31))}


def greedy_arrow(_: Request) -> Iterator[Any]:
    yield {"held": pa.allocate_buffer(2**31).size}


def fault(_: Request) -> Iterator[Any]:
    yield {}
    raise TaskFault("sheet_missing", "'a'", "'b'")


def fail(request: Request) -> Iterator[Any]:
    yield {}
    raise ValueError(request["words"])


class PanicException(BaseException):
    """As a Rust parser raises it."""


def panic(_: Request) -> Iterator[Any]:
    yield {}
    raise PanicException("secret text of a cell")


def die(request: Request) -> Iterator[Any]:
    yield {}
    os.kill(os.getpid(), getattr(signal, request["signal"]))
    time.sleep(60)


def leave(_: Request) -> Iterator[Any]:
    yield {}
    os._exit(7)


def chatter(_: Request) -> Iterator[Any]:
    print("words that no frame holds" * 10_000)
    os.write(1, b"more of them" * 10_000)
    yield {"said": True}


def babble(request: Request) -> Iterator[Any]:
    """Write nonsense where the frames go."""
    for fd in range(3, 10):
        try:
            os.write(fd, request["text"].encode())
        except OSError:
            continue
    time.sleep(60)
    yield {}


def touch(request: Request) -> Iterator[Any]:
    """Say that it runs, then run on."""
    Path(request["file"]).write_text(str(os.getpid()))
    yield {}
    time.sleep(600)
