"""One command in a process of its own: CPU seconds with its children, wall-clock seconds, peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command cost."""

    cpu_s: float
    wall_s: float
    peak_rss_mb: float


def cost(arguments: Sequence[str], env: dict[str, str] | None = None) -> Cost:
    """Run ``python <arguments>`` to its end.

    Raises:
        RuntimeError: it failed; its output is in the message.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: exit {process.returncode}\n{output[-3000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss / 1024)


def median(costs: Sequence[Cost]) -> Cost:
    """The run of median CPU time."""
    return sorted(costs, key=lambda one: one.cpu_s)[len(costs) // 2]
