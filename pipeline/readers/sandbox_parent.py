"""A child process for parsers that may hang, crash or exhaust the memory: each becomes one fault of the file.

The child runs one task (``module:function``, see ``sandboxed.py``) on one request and answers in frames: a JSON
object, or the bytes of an Arrow IPC stream. Frames are read as they come, so neither side holds them all. The
child's time counts while this process waits for it, not while it waits for this process. A child that ended its task
well serves the next one: starting one takes longer than reading a small file.
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

_BOOT = (
    "import sys,json;sys.path[:]=json.loads(sys.stdin.buffer.readline());"
    "from pipeline.readers.sandbox_child import main;main()"
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
    # And pages of 2 MB where the system has them: a third of the page faults (glibc 2.35 on; others ignore it).
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
PIPE_BYTES = 2**20
FRAME_BYTES = 2**31
"""Longest frame that is believed."""
KEPT_MB = 512
"""A child that has held more memory than this is not kept for another task."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task may cost: seconds of work, and memory beyond that of the bare interpreter."""

    seconds: int
    memory_mb: int


Frame = dict[str, Any] | memoryview
"""A JSON object, or the bytes of an Arrow IPC stream."""


def run_task(task: str, request: Mapping[str, Any], limits: Limits, source: str) -> Iterator[Frame]:
    """Run a task in a child process and give its frames as they come.

    Args:
        task: ``module:function``; the function takes the request and yields frames.
        request: plain data.
        limits: what it may cost.
        source: the file, for the fault.

    Raises:
        FileFault: the task says so, or needs more time or memory than the limits, or dies.
    """
    order = {"task": task, "seconds": limits.seconds, "memory_mb": limits.memory_mb, "request": dict(request)}
    child, frame = _start_task(order, limits, source)
    good = False
    try:
        while frame is not None:
            if isinstance(frame, dict) and "fault" in frame:
                raise _task_fault(frame["fault"], source, limits)
            if isinstance(frame, dict) and "done" in frame:
                good = frame["done"] < KEPT_MB
                return
            yield frame
            frame = child.next()
        raise child.death(limits, source)
    finally:
        if good:
            _keep(child)
        else:
            child.end()


def _start_task(order: Mapping[str, Any], limits: Limits, source: str) -> tuple[_Child, Frame | None]:
    """A child at work, and its first frame. One that died while it was idle is replaced."""
    kept, _thread.child = getattr(_thread, "child", None), None
    if kept is not None and kept.owner == os.getpid():
        frame = _first_frame(kept, order, limits, source)
        if frame is not None:
            return kept, frame
        kept.end()
    child = _Child()
    return child, _first_frame(child, order, limits, source)


def _first_frame(child: _Child, order: Mapping[str, Any], limits: Limits, source: str) -> Frame | None:
    try:
        return child.next() if child.ask(order, limits, source) else None
    except BaseException:
        child.end()
        raise


_thread = threading.local()  # Linux ends a child with the thread that started it: each thread has its own


def _keep(child: _Child) -> None:
    if getattr(_thread, "child", None) is None:
        _thread.child = child
    else:
        child.end()


@atexit.register
def release() -> None:
    """End the idle child of this thread."""
    child, _thread.child = getattr(_thread, "child", None), None
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
            [sys.executable, "-I", "-S", "-c", _BOOT],
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
        self._write(_path())

    def ask(self, order: Mapping[str, Any], limits: Limits, source: str) -> bool:
        """Give it a task; false where it is dead."""
        self._left, self._limits, self._source = float(limits.seconds), limits, source
        return self._write({**order, "parent": self.owner})

    def _write(self, line: Any) -> bool:
        try:
            self._order.write(json.dumps(line).encode() + b"\n")
            self._order.flush()
        except BrokenPipeError:
            return False  # the reading end says why
        return True

    def next(self) -> Frame | None:
        """The next frame; None when the child has closed its output, even in the middle of a frame.

        Raises ``FileFault`` when its time is up.
        """
        head = self._read(9)
        if head is None:
            return None
        kind, size = bytes(head[:1]), int.from_bytes(head[1:], "big")
        if size > FRAME_BYTES or kind not in (b"J", b"A"):
            return None
        body = self._read(size)
        if body is None or kind == b"A":
            return body
        content: dict[str, Any] = json.loads(bytes(body))
        return content

    def _read(self, size: int) -> memoryview | None:
        view, at = np.empty(size, np.uint8).data, 0  # not a bytearray, which would be filled with zeros first
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

    def death(self, limits: Limits, source: str) -> FileFault:
        """What a child died of that could not say it.

        Raises ``RuntimeError`` where it did not come as far as the file.
        """
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:  # it is alive, but what it sent is no frame
            return file_fault(Reason.FILE_UNREADABLE, source, "the parser lost its way", "a sound file")
        self._errors.seek(0)
        said = self._errors.read(2**16)
        if code == 1:
            raise RuntimeError(f"the reader process did not start: {said.decode(errors='replace')[-2000:]}")
        if b"memory allocation of" in said or code == -signal.SIGKILL:
            return _memory(source, limits)
        if code == -signal.SIGXCPU:
            found = f"more than {limits.seconds} s to read"
            return file_fault(Reason.FILE_LIMIT, source, found, f"{limits.seconds} s")
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return file_fault(Reason.FILE_UNREADABLE, source, f"the parser crashed ({how})", "a sound file")

    def end(self) -> None:
        """End it, whatever it is doing."""
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


def _path() -> list[str]:
    """Where the child looks for modules: exactly where this process does, without running ``site`` again."""
    root = str(Path(pipeline.__file__).resolve().parent.parent)
    return list(dict.fromkeys([*(str(Path(entry).absolute()) for entry in sys.path), root]))


def _task_fault(told: Mapping[str, str], source: str, limits: Limits) -> FileFault:
    """The fault that the task itself names."""
    if told["reason"] == "memory":
        return _memory(source, limits)
    return file_fault(Reason.of(told["reason"]), source, told["found"], told["expected"])


def _memory(source: str, limits: Limits) -> FileFault:
    found = f"more than {limits.memory_mb} MB to read"
    return file_fault(Reason.FILE_LIMIT, source, found, f"{limits.memory_mb} MB")
