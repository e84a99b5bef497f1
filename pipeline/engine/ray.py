"""The Ray engine: the same tasks on a cluster, with retries. Needs the extra ``[ray]``.

Each Ray task writes its own shards to a file system that all nodes share, and returns its receipt. A retry writes the
same content-addressed shards again, so it duplicates nothing.

``RAY_ADDRESS`` names the cluster. Without it, the engine starts a local cluster with one CPU per worker and stops it
after the run. Every node of a cluster needs the same version of this program.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pipeline.engine.base import Result, Task, ignore, source_of
from pipeline.errors import BusyError, SchemaError
from pipeline.process import use_one_thread

RETRIES = 3
"""How often a task runs again after its worker or node died."""
SECONDS = 10
"""Longest time, in seconds, that the head of a cluster may take to answer."""
MISSED_ANSWERS = 3
"""Missed answers in a row after which the head counts as lost. A restart of the head takes less than half a minute."""
WINDOW = 2
"""Tasks in flight for each worker: enough that no worker waits, few enough that a long list needs no memory."""


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    workers: int = 1,
    on_receipt: Callable[[Result], None] = ignore,
) -> list[Result]:
    """Run every task and return the results in the order of the tasks (see ``pipeline.engine.base``).

    Raises:
        SchemaError: Ray is not installed.
        BusyError: the cluster cannot be reached or was lost, or a task's worker died more than ``RETRIES`` times.
    """
    ray = _ray()
    if not tasks:  # start no cluster
        return []
    results: list[Any] = [None] * len(tasks)
    with _cluster(ray, workers):
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        shared = ray.put(work)
        waiting = iter(range(len(tasks)))
        in_flight: dict[Any, int] = {}
        while True:
            for index in waiting:
                in_flight[remote.remote(shared, tasks[index])] = index
                if len(in_flight) >= WINDOW * workers:
                    break
            if not in_flight:
                return results
            done = _wait_for_one(ray, list(in_flight))
            index = in_flight.pop(done)
            results[index] = _result(ray, done, tasks[index])
            on_receipt(results[index])


def _wait_for_one(ray: Any, in_flight: list[Any]) -> Any:
    """Wait until one of the tasks in flight is done, and return it.

    Raises ``BusyError`` where the cluster is gone; Ray itself would end this process after a minute, like a crash.
    """
    head = ray.get_runtime_context().gcs_address
    missed = 0
    while True:
        done, _ = ray.wait(in_flight, num_returns=1, timeout=SECONDS)
        if done:
            return done[0]
        try:
            _connect(head)
            missed = 0
        except OSError as error:
            missed += 1
            if missed == MISSED_ANSWERS:
                raise BusyError(
                    "the Ray cluster was lost",
                    where=head,
                    found=type(error).__name__,
                    remedy="look at the head node of the cluster; run again: nothing was published",
                ) from None


def _call(work: Callable[[Any], Any], task: Any) -> Any:
    use_one_thread()  # a running cluster has its own environment variables
    return work(task)


def _result(ray: Any, done: Any, task: Any) -> Any:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause or RuntimeError(str(error)) from None
    except ray.exceptions.RayError as error:
        raise BusyError(
            "a worker process died again and again",
            where=source_of(task),
            found=type(error).__name__,
            expected=f"an answer within {RETRIES + 1} attempts",
            remedy="look at the cluster's memory and nodes; run again: nothing was published",
        ) from None


@contextmanager
def _cluster(ray: Any, workers: int) -> Iterator[None]:
    """A connection to the cluster, or to a local cluster for this run alone."""
    if ray.is_initialized():
        yield
        return
    # Ray installs its own handler for SIGTERM, which would change the exit code of the run.
    handler = signal.getsignal(signal.SIGTERM)
    address = os.environ.get("RAY_ADDRESS")
    # Without "local", Ray would use any cluster that was ever started on this machine.
    local = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        _connect(address)
        ray.init(
            address=address or "local",
            logging_level="error",
            log_to_driver=False,
            configure_logging=False,
            **local,
        )
    except (OSError, RuntimeError, ray.exceptions.RayError) as error:
        raise BusyError(
            "the Ray cluster cannot be reached",
            where=address or "local",
            found=type(error).__name__,
            remedy="check RAY_ADDRESS, or run with --engine local",
        ) from None
    finally:
        _restore(handler)
    try:
        yield
    finally:
        ray.shutdown()
        _restore(handler)


def _connect(address: str | None) -> None:
    """Raise ``OSError`` where no process answers at "host:port"; Ray itself would try for ten minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=SECONDS).close()


def _restore(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _ray() -> Any:
    # No usage reports, and no warning about GPUs that are hidden from tasks that need none.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise SchemaError(
            "the engine needs the package ray",
            remedy="pip install 'cleanroom-pipeline[ray]', or --engine local",
        ) from None
    return ray
