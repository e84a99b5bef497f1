"""Processes of a session, found and killed: a kill test leaves none behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

SECONDS = 10
"""How long the processes of a killed session may take to be gone."""


def session(leader: int) -> dict[int, str]:
    """Living processes of the session that ``leader`` leads, itself left out, with what they call themselves."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            facts = stat.read_text().rpartition(") ")[2].split()
            name = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        pid = int(stat.parent.name)
        if int(facts[3]) == leader and pid != leader and facts[0] != "Z":
            found[pid] = name
    return found


def kill(pid: int) -> None:
    """SIGKILL; a process that has ended meanwhile is none to kill."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_session(leader: int) -> None:
    """Kill the leader and everyone in its session, until nobody is left.

    Raises:
        RuntimeError: somebody stays.
    """
    kill(leader)
    deadline = time.monotonic() + SECONDS
    while left := session(leader):
        if time.monotonic() > deadline:
            raise RuntimeError(f"cannot be killed: {sorted(left)}")
        for pid in left:
            kill(pid)
        time.sleep(0.01)
