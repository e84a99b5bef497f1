"""The parent's side of the sandbox: a child process for parsers that may hang, crash or exhaust the memory.

Each of these becomes one fault of the file. The child (``sandbox_child``) runs one task (``module:function``) on one
request and answers in frames: JSON objects, or bytes of an Arrow IPC stream. The parent reads frames as they come, so
that neither side holds them all. The time limit counts while the parent waits for the child, not while the child waits.
A child that finishes its task serves the next one, because starting a child takes longer than reading a small file.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pipeline
from pipeline.findings import FileFault, file_fault
from pipeline.reasons import Reason

_START_CODE = (
    "import sys,json;sys.path[:]=json.loads(sys.stdin.buffer.readline());"
    "from pipeline.readers.sandbox_child import main;main()"
)
_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # other allocators reserve far more address space than they use
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "LANG": "C.UTF-8",
    # Keep the pages of large arrays: otherwise the system zeroes them for each new array (mallopt(3)).
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**28),
    "MALLOC_TOP_PAD_": str(2**25),
    # Pages of 2 MB cause a third of the page faults (from glibc 2.35 on; others ignore it).
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
PIPE_BYTES = 2**20
MOST_FRAME_BYTES = 2**31
"""Longest frame that the parent accepts."""
KEPT_MB = 512
"""A child whose peak memory is above this is not kept for another task."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a task: seconds of work, and MB of memory beyond those of the interpreter."""

    seconds: int
    memory_mb: int


Frame = dict[str, Any] | memoryview
"""A JSON object, or the bytes of an Arrow IPC stream."""


def run_task(task: str, request: Mapping[str, Any], limits: Limits, source: str) -> Iterator[Frame]:
    """Run a task in a child process and yield its frames as they come.

    Args:
        task: ``module:function``; the function takes the request and yields frames.
        request: plain data for the task.
        limits: time and memory.
        source: the file that a fault names.

    Raises:
        FileFault: the task reports one, exceeds its limits, or dies.
    """
    order = {"task": task, "seconds": limits.seconds, "memory_mb": limits.memory_mb, "request": dict(request)}
    child, frame = _start_task(order, limits, source)
    finished = False
    try:
        while frame is not None:
            if isinstance(frame, dict) and "fault" in frame:
                raise _task_fault(frame["fault"], source, limits)
            if isinstance(frame, dict) and "done" in frame:
                finished = frame["done"] < KEPT_MB
                return
            yield frame
            frame = child.next_frame()
        raise child.death_fault(limits, source)
    finally:
        if finished:
            _keep_idle(child)
        else:
            child.end()


def _start_task(order: Mapping[str, Any], limits: Limits, source: str) -> tuple[_Child, Frame | None]:
    """A child at work, and its first frame. A child that died while idle is replaced."""
    kept, _idle.child = getattr(_idle, "child", None), None
    if kept is not None and kept.owner == os.getpid():
        frame = _first_frame(kept, order, limits, source)
        if frame is not None:
            return kept, frame
        kept.end()
    child = _Child()
    return child, _first_frame(child, order, limits, source)


def _first_frame(child: _Child, order: Mapping[str, Any], limits: Limits, source: str) -> Frame | None:
    try:
        return child.next_frame() if child.start(order, limits, source) else None
    except BaseException:
        child.end()
        raise


_idle = (
    threading.local()
)  # a child ends with the thread that started it (Linux), so that each thread has its own


def _keep_idle(child: _Child) -> None:
    if getattr(_idle, "child", None) is None:
        _idle.child = child
    else:
        child.end()


@atexit.register
def release() -> None:
    """End the idle child of this thread."""
    child, _idle.child = getattr(_idle, "child", None), None
    if child is not None:
        child.end()


class _Child:
    """A child process, its frames, and the clock of its task."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        environment = {
            k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START_CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment | _ENVIRONMENT,
        )
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101
        self._order = self._process.stdin
        self._answer = self._process.stdout
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # a limit of the system; it only costs more system calls
                fcntl.fcntl(self._answer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        # poll, not select: a file descriptor may be above select's limit.
        self._poll = select.poll()
        self._poll.register(self._answer, select.POLLIN | select.POLLHUP)
        self._left = 0.0
        self._limits, self._source = Limits(0, 0), ""
        self._write(_module_path())

    def start(self, order: Mapping[str, Any], limits: Limits, source: str) -> bool:
        """Give the child a task; false if it is dead."""
        self._left, self._limits, self._source = float(limits.seconds), limits, source
        return self._write({**order, "parent": self.owner})

    def _write(self, line: Any) -> bool:
        try:
            self._order.write(json.dumps(line).encode() + b"\n")
            self._order.flush()
        except BrokenPipeError:
            return False  # the reading side reports the cause
        return True

    def next_frame(self) -> Frame | None:
        """The next frame; None if the child has closed its output, even in the middle of a frame.

        Raises ``FileFault`` if its time is up.
        """
        head = self._read(9)
        if head is None:
            return None
        kind, size = bytes(head[:1]), int.from_bytes(head[1:], "big")
        if size > MOST_FRAME_BYTES or kind not in (b"J", b"A"):
            return None
        body = self._read(size)
        if body is None or kind == b"A":
            return body
        content: dict[str, Any] = json.loads(bytes(body))
        return content

    def _read(self, size: int) -> memoryview | None:
        view, at = np.empty(size, np.uint8).data, 0  # a bytearray would be filled with zeros first
        while at < size:
            started = time.monotonic()
            ready = self._poll.poll(max(self._left, 0) * 1000)
            self._left -= time.monotonic() - started
            if not ready:
                seconds = self._limits.seconds
                raise file_fault(
                    Reason.FILE_LIMIT, self._source, f"more than {seconds} s to read", f"{seconds} s"
                )
            got = os.readv(self._answer.fileno(), [view[at:]])
            if got == 0:
                return None
            at += got
        return view

    def death_fault(self, limits: Limits, source: str) -> FileFault:
        """The fault for a child that died without reporting one.

        Raises ``RuntimeError`` if it died before its first task.
        """
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:  # alive, but it sent something that is not a frame
            return file_fault(Reason.FILE_UNREADABLE, source, "the parser lost its way", "a sound file")
        self._errors.seek(0)
        stderr = self._errors.read(2**16)
        if code == 1:
            raise RuntimeError(f"the reader process did not start: {stderr.decode(errors='replace')[-2000:]}")
        if b"memory allocation of" in stderr or code == -signal.SIGKILL:
            return _memory_fault(source, limits)
        if code == -signal.SIGXCPU:
            found = f"more than {limits.seconds} s to read"
            return file_fault(Reason.FILE_LIMIT, source, found, f"{limits.seconds} s")
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return file_fault(Reason.FILE_UNREADABLE, source, f"the parser crashed ({cause})", "a sound file")

    def end(self) -> None:
        """Kill the child, whatever it is doing."""
        if self.owner == os.getpid():  # not a copy in a forked process
            self._process.kill()
            self._process.wait()
        with suppress(BrokenPipeError):
            self._order.close()
        self._answer.close()
        self._errors.close()

    def __del__(self) -> None:
        if hasattr(self, "_answer") and not self._answer.closed:
            self.end()


def _module_path() -> list[str]:
    """The module search path of the child: that of this process, without running ``site`` again."""
    root = str(Path(pipeline.__file__).resolve().parent.parent)
    return list(dict.fromkeys([*(str(Path(entry).absolute()) for entry in sys.path), root]))


def _task_fault(answer: Mapping[str, str], source: str, limits: Limits) -> FileFault:
    """The fault that the task reports."""
    if answer["reason"] == "memory":
        return _memory_fault(source, limits)
    return file_fault(Reason.of(answer["reason"]), source, answer["found"], answer["expected"])


def _memory_fault(source: str, limits: Limits) -> FileFault:
    found = f"more than {limits.memory_mb} MB to read"
    return file_fault(Reason.FILE_LIMIT, source, found, f"{limits.memory_mb} MB")
