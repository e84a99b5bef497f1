"""A child process for parsers that may hang, crash or exhaust the memory: each becomes one fault of the file.

The child runs one task (``module:function``, see ``sandboxed.py``) on one request and answers in frames: a JSON
object, or the bytes of an Arrow IPC stream. Frames are read as they come, so neither side holds them all. The
child's time counts while this process waits for it, not while it waits for this process.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pipeline
from pipeline.reasons import Reason
from pipeline.sources.fault import FileFault, fault

_BOOT = (
    "import sys,json;r=json.loads(sys.stdin.buffer.readline());sys.path[:]=r['path'];"
    "from pipeline.sources.sandboxed import main;main(r)"
)
_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve address space far beyond what they use
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LANG": "C.UTF-8",
    # Large arrays come and go: without this the system zeroes their pages anew each time (mallopt(3)).
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
    "MALLOC_TOP_PAD_": str(2**25),
}
PIPE_BYTES = 2**20
FRAME_BYTES = 2**31
"""Longest frame that is believed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task may cost: seconds of work, and memory beyond that of the bare interpreter."""

    seconds: int
    memory_mb: int


Frame = dict[str, Any] | memoryview
"""A JSON object, or the bytes of an Arrow IPC stream."""


def run(task: str, request: Mapping[str, Any], limits: Limits, source: str) -> Iterator[Frame]:
    """Run a task in a child process and give its frames as they come.

    Args:
        task: ``module:function``; the function takes the request and yields frames.
        request: plain data.
        limits: what it may cost.
        source: the file, for the fault.

    Raises:
        FileFault: the task says so, or needs more time or memory than the limits, or dies.
    """
    with _child(task, request, limits) as (process, errors):
        frames = _Frames(process, limits.seconds, source)
        while (frame := frames.next()) is not None:
            if isinstance(frame, dict) and "fault" in frame:
                raise _told(frame["fault"], source, limits)
            if isinstance(frame, dict) and "done" in frame:
                return
            yield frame
        raise _death(process, errors, limits, source)


@contextmanager
def _child(
    task: str, request: Mapping[str, Any], limits: Limits
) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The running child; it is gone when the block is left, however it is left."""
    order = {
        "path": _path(),
        "parent": os.getpid(),
        "task": task,
        "seconds": limits.seconds,
        "memory_mb": limits.memory_mb,
        "request": dict(request),
    }
    command = [sys.executable, "-I", "-S", "-c", _BOOT]
    environment = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "TZ")}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment | _ENVIRONMENT,
        )
        assert process.stdin is not None and process.stdout is not None  # noqa: S101
        try:
            try:
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.close()
            except BrokenPipeError:
                pass  # it died at once: the reading end says so
            yield process, errors
        finally:
            process.kill()
            process.stdout.close()
            process.wait()


def _path() -> list[str]:
    """Where the child looks for modules: exactly where this process does, without running ``site`` again."""
    root = str(Path(pipeline.__file__).resolve().parent.parent)
    return list(dict.fromkeys([*(str(Path(entry).absolute()) for entry in sys.path), root]))


class _Frames:
    """Frames from the child's output, each one byte of kind, eight of length, and the content."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: int, source: str) -> None:
        assert process.stdout is not None  # noqa: S101
        self._pipe = process.stdout.fileno()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # a limit of the system; it only costs more system calls
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._left = float(seconds)
        self._limit = seconds
        self._source = source
        # poll, not select: a file descriptor may be above select's limit.
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN | select.POLLHUP)

    def next(self) -> Frame | None:
        """The next frame; None when the child has closed its output, even in the middle of a frame."""
        head = self._read(9)
        if head is None:
            return None
        kind, size = bytes(head[:1]), int.from_bytes(head[1:], "big")
        if size > FRAME_BYTES or kind not in (b"J", b"A"):
            return None
        body = self._read(size)
        if body is None:
            return None
        if kind == b"A":
            return body
        content: dict[str, Any] = json.loads(bytes(body))
        return content

    def _read(self, size: int) -> memoryview | None:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            started = time.monotonic()
            ready = self._poll.poll(max(self._left, 0) * 1000)
            self._left -= time.monotonic() - started
            if not ready:
                raise fault(
                    Reason.FILE_LIMIT, self._source, f"more than {self._limit} s to read", f"{self._limit} s"
                )
            got = os.readv(self._pipe, [view[at:]])
            if got == 0:
                return None
            at += got
        return view


def _told(told: Mapping[str, str], source: str, limits: Limits) -> FileFault:
    """The fault that the task itself names."""
    if told["reason"] == "memory":
        return _memory(source, limits)
    return fault(Reason.of(told["reason"]), source, told["found"], told["expected"])


def _death(process: subprocess.Popen[bytes], errors: IO[bytes], limits: Limits, source: str) -> FileFault:
    """What a child died of that could not say it."""
    code = process.wait(timeout=10)
    errors.seek(0)
    said = errors.read(2**16)
    if code == 1:  # it did not come as far as the file: no fault of the file
        raise RuntimeError(f"the reader process did not start: {said.decode(errors='replace')[-2000:]}")
    if b"memory allocation of" in said or code == -signal.SIGKILL:
        return _memory(source, limits)
    if code == -signal.SIGXCPU:
        return fault(
            Reason.FILE_LIMIT, source, f"more than {limits.seconds} s to read", f"{limits.seconds} s"
        )
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return fault(Reason.FILE_UNREADABLE, source, f"the parser crashed ({how})", "a sound file")


def _memory(source: str, limits: Limits) -> FileFault:
    return fault(
        Reason.FILE_LIMIT, source, f"more than {limits.memory_mb} MB to read", f"{limits.memory_mb} MB"
    )
