"""A local Ray cluster for many runs, in a session of its own: its workers, its raylet or all of it can be killed.

One cluster for many runs, because to start one takes four seconds. Workers import the pipeline from this repository.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from benchmarks.measure import ROOT
from benchmarks.victims import kill, kill_session, session

SECONDS = 60
"""How long a cluster may take to start."""
CPUS = 2
OWN = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Processes of the cluster itself that name themselves like workers."""


class Cluster:
    """A cluster that can be lost and started again at the same address.

    Args:
        place: a folder with a short name for its files (the paths of its sockets may have 107 bytes).

    Attributes:
        environment: of a driver that is to use it.
        starts: how often it was started.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._head: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.environment = {
            "RAY_ADDRESS": f"127.0.0.1:{self._port}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(ROOT),
        }

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until its raylet is there.

        Raises:
            RuntimeError: it does not come up.
        """
        ray = str(Path(sys.executable).with_name("ray"))
        options = [
            "--num-cpus",
            str(CPUS),
            "--object-store-memory",
            "80000000",
            "--include-dashboard",
            "false",
        ]
        where = ["--node-ip-address", "127.0.0.1", "--port", str(self._port), "--temp-dir", str(self._place)]
        with (self._place.parent / "cluster.log").open("ab") as log:
            self._head = subprocess.Popen(
                [ray, "start", "--head", "--block", *options, *where],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1
        deadline = time.monotonic() + SECONDS
        while self.raylet is None or not self._answers():
            if time.monotonic() > deadline or self._head.poll() is not None:
                self.kill()
                raise RuntimeError(f"the cluster does not start: {self._place.parent / 'cluster.log'}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill all of it: no process of one round lives on in the next."""
        if self._head is not None:
            kill_session(self._head.pid)
            self._head.wait()
            self._head = None

    def kill_raylet(self) -> None:
        """Kill the one process that starts and watches the workers of this node."""
        if (raylet := self.raylet) is not None:
            kill(raylet)

    @property
    def raylet(self) -> int | None:
        """The process that starts the workers, where there is one."""
        return next((pid for pid, name in self._session() if "/raylet/raylet " in name), None)

    def workers(self) -> list[int]:
        """Processes that run tasks or wait for some."""
        return sorted(
            pid for pid, name in self._session() if name.startswith("ray::") and not name.startswith(OWN)
        )

    def _session(self) -> list[tuple[int, str]]:
        return [] if self._head is None else sorted(session(self._head.pid).items())

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True
