"""The child's side of the sandbox: it sets its limits, runs a task and writes the answers as frames to its output.

Only ``sandbox_parent`` starts it. Before the task, it imports nothing but the standard library.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_INTERPRETER_MB = 1024
"""Address space of the interpreter where the system does not tell it."""


class TaskFault(Exception):
    """An error of the file that a task reports; the parent raises it as a ``FileFault``.

    Args:
        reason: slug of a file reason.
        found, expected: in words, without cell text.
    """

    def __init__(self, reason: str, found: str, expected: str = "") -> None:
        super().__init__(reason, found, expected)
        self.reason, self.found, self.expected = reason, found, expected


Answer = Mapping[str, Any] | bytes | memoryview
Task = Callable[[Mapping[str, Any]], Iterator[Answer]]


def main() -> None:
    """Run tasks, one a line of standard input, until one fails. Never returns."""
    output = os.dup(1)
    os.dup2(2, 1)  # output of a parser must not mix with the frames
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.meta_path.insert(0, _WithoutPandas())
    interpreter = 0
    for line in sys.stdin.buffer:
        order = json.loads(line)
        _end_with_parent(order["parent"])
        task = _load_task(*order["task"].split(":"))
        interpreter = interpreter or _address_space()
        if not _run_task(task, order, interpreter, output):
            break
    os._exit(0)


def _load_task(module: str, name: str) -> Task:
    if module not in sys.modules:
        gc.disable()  # imported objects stay: searching them for garbage takes a tenth of the start
        import_module(module)
        gc.freeze()
        gc.enable()
    task: Task = getattr(sys.modules[module], name)
    return task


def _run_task(task: Task, order: Mapping[str, Any], interpreter: int, output: int) -> bool:
    """Run one task; returns whether the child may take another one."""
    try:
        _set_limits(order["seconds"], interpreter + order["memory_mb"] * 2**20)
        for answer in task(order["request"]):
            _send(output, answer)
        _send(output, {"done": _peak_mb()})
        return True
    except TaskFault as fault:
        _send_fault(output, fault.reason, fault.found, fault.expected)
    except MemoryError:
        _send_fault(output, "memory", "", "")
    except BaseException as error:  # a panic of a Rust parser is not an Exception
        name = "panic" if "Panic" in type(error).__name__ else type(error).__name__
        _send_fault(output, "file_unreadable", f"the parser failed ({name})", "a sound file")
    return False


class _WithoutPandas:
    """Makes the import of pandas fail: pyarrow would load it if it is installed, and no task needs it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _send(output: int, answer: Answer) -> None:
    if isinstance(answer, Mapping):
        kind, body = b"J", memoryview(json.dumps(answer).encode())
    else:
        kind, body = b"A", memoryview(answer)
    _write(output, memoryview(kind + body.nbytes.to_bytes(8, "big")))
    _write(output, body)


def _write(output: int, data: memoryview) -> None:
    while data:
        data = data[os.write(output, data) :]


def _send_fault(output: int, reason: str, found: str, expected: str) -> None:
    _send(output, {"fault": {"reason": reason, "found": found, "expected": expected}})


def _set_limits(seconds: int, memory: int) -> None:
    """Set the limits of this process. The parent keeps the time; these limits hold if the parent is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds + 5)
    _lower_limit(resource.RLIMIT_AS, memory)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _lower_limit(kind: int, wanted: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _address_space() -> int:
    """Bytes of address space in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return _INTERPRETER_MB * 2**20
    return pages * resource.getpagesize()


def _end_with_parent(parent: int) -> None:
    """Let the system kill this process when its parent ends, however that happens (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent is gone already
        os._exit(0)


def _peak_mb() -> int:
    """Peak memory of this process in MB. Not ``ru_maxrss``, which begins at that of the parent."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
