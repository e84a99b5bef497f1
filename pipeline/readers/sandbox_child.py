"""The child's side of the sandbox: limits first, then the task, its answers in frames on the standard output.

Started by ``sandbox.py`` only. Imports nothing but the standard library before the task does.
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
_BARE_MB = 1024
"""Address space of the bare interpreter where it cannot be asked."""


class TaskFault(Exception):
    """What a task says of its file; becomes a ``FileFault`` on the other side.

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
    """Run the tasks that are ordered, one a line of the standard input, until one fails; never returns."""
    output = os.dup(1)
    os.dup2(2, 1)  # whatever a parser prints must not end up between the frames
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.meta_path.insert(0, _WithoutPandas())
    bare = 0
    for line in sys.stdin.buffer:
        order = json.loads(line)
        _die_with(order["parent"])
        task = _task(*order["task"].split(":"))
        bare = bare or _address_space()
        if not _served(task, order, bare, output):
            break
    os._exit(0)


def _task(module: str, name: str) -> Task:
    if module not in sys.modules:
        gc.disable()  # what an import makes stays: looking for garbage among it is a tenth of the time to start
        import_module(module)
        gc.freeze()
        gc.enable()
    task: Task = getattr(sys.modules[module], name)
    return task


def _served(task: Task, order: Mapping[str, Any], bare: int, output: int) -> bool:
    """Run one task; whether another may follow."""
    try:
        _limit(order["seconds"], bare + order["memory_mb"] * 2**20)
        for answer in task(order["request"]):
            _send(output, answer)
        _send(output, {"done": _peak_mb()})
        return True
    except TaskFault as fault:
        _fault(output, fault.reason, fault.found, fault.expected)
    except MemoryError:
        _fault(output, "memory", "", "")
    except BaseException as error:  # a panic of a Rust parser is no Exception
        name = "panic" if "Panic" in type(error).__name__ else type(error).__name__
        _fault(output, "file_unreadable", f"the parser failed ({name})", "a sound file")
    return False


class _WithoutPandas:
    """Lets the import of pandas fail: pyarrow would load it, where it is installed, for nothing that a task needs."""

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


def _fault(output: int, reason: str, found: str, expected: str) -> None:
    _send(output, {"fault": {"reason": reason, "found": found, "expected": expected}})


def _limit(seconds: int, memory: int) -> None:
    """Limit what this process may take from here on. The parent's clock rules; these hold when it is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + seconds + 5)
    _lower(resource.RLIMIT_AS, memory)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _lower(kind: int, wanted: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _address_space() -> int:
    """Bytes of address space in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return _BARE_MB * 2**20
    return pages * resource.getpagesize()


def _die_with(parent: int) -> None:
    """Have the system end this process when its parent ends, however that happens (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it is gone already
        os._exit(0)


def _peak_mb() -> int:
    """Most memory this process has held. ``ru_maxrss`` is of no use here: it begins at that of the parent."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
