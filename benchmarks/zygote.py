"""Starts runs quickly: a process that has imported the pipeline and does nothing else forks one child a run.

The command line takes a second to import its libraries; a test of a thousand runs need not pay that each time. The
child goes through the same ``main`` as ``python -m pipeline``, in a session of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType

from benchmarks.measure import ROOT

_IMPORTED = (
    "pandera.polars",
    "pyarrow.compute",
    "pipeline.cli.app",
    "pipeline.engine.local",
    "pipeline.report.html",
    "pipeline.report.json_log",
    "pipeline.report.json_log",
    "pipeline.report.events",
    "pipeline.run",
    "pipeline.readers.jsonl",
    "pipeline.readers.ranges",
    "pipeline.report.token_budget",
    "pipeline.stages.table",
    "pipeline.stores.sync",
)
"""What a run imports in its course. None of it starts a thread, which a fork would lose."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that was started; ``pid`` is also its session."""

    pid: int


class Zygote:
    """Starts runs and waits for them.

    Args:
        environment: what the runs find in theirs, beside what is there.
    """

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = environment or {}

    def __enter__(self) -> Zygote:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.zygote"],
            cwd=ROOT,
            env={**os.environ, **self._environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def start(self, arguments: list[str]) -> Run:
        """Start ``python -m pipeline`` with these arguments."""
        return Run(int(self._ask({"start": arguments})))

    def ended(self, run: Run) -> int | None:
        """Exit code of a run, negative for a signal; None while it goes on."""
        code = self._ask({"poll": run.pid})
        return None if code == "None" else int(code)

    def wait(self, run: Run) -> int:
        """Exit code of a run, once it has ended."""
        return int(self._ask({"wait": run.pid}))

    def _ask(self, question: dict[str, object]) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def _serve() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    if "RAY_ADDRESS" in os.environ:
        importlib.import_module("ray")

    ended: dict[int, int] = {}
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            answer: int | None = _fork(question["start"])
        else:
            pid = question.get("poll") or question["wait"]
            if pid not in ended:
                found, status = os.waitpid(pid, os.WNOHANG if "poll" in question else 0)
                if found:
                    ended[pid] = os.waitstatus_to_exitcode(status)
            answer = ended.get(pid)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _fork(arguments: list[str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(nothing, handle)
    sys.argv = ["pipeline", *arguments]
    try:
        from pipeline.cli.app import main

        main()
    except SystemExit as end:
        code = end.code
        os._exit(code if isinstance(code, int) else 1)
    except BaseException:
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    _serve()
