"""The Ray engine: the same tasks on a cluster, with retries. Needs the extra ``[ray]``.

Ray Core tasks only: each writes its own shards to a file system that all nodes share, and sends back its receipt.
A task that is repeated writes the same content-addressed shards again, so a retry can double nothing.

The cluster is the one named by ``RAY_ADDRESS``; without it a local one is started with one CPU a worker, and ended
with the run. On a cluster, every node needs this program installed in the same version.
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
from pipeline.process import one_each

RETRIES = 3
"""How often a task is run again after its worker or node died."""
SECONDS = 10
"""How long the head of a cluster may take to answer."""
SILENT = 3
"""How often in a row the head may not answer while tasks run: it may be started again, within half a minute."""
WINDOW = 2
"""Tasks in flight for each worker: enough that none waits, few enough that a long list costs no memory."""


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    workers: int = 1,
    on_receipt: Callable[[Result], None] = ignore,
) -> list[Result]:
    """Run every task and return the results in the order of the tasks: see ``pipeline.engine.base``.

    Raises:
        SchemaError: Ray is not installed.
        BusyError: the cluster cannot be reached or was lost, or a task's worker died more than ``RETRIES`` times.
    """
    ray = _ray()
    if not tasks:  # no cluster is started for nothing
        return []
    results: list[Any] = [None] * len(tasks)
    with _cluster(ray, workers):
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        shared = ray.put(work)
        waiting = iter(range(len(tasks)))
        flying: dict[Any, int] = {}
        while True:
            for at in waiting:
                flying[remote.remote(shared, tasks[at])] = at
                if len(flying) >= WINDOW * workers:
                    break
            if not flying:
                return results
            done = _next(ray, list(flying))
            at = flying.pop(done)
            results[at] = _answer(ray, done, tasks[at])
            on_receipt(results[at])


def _next(ray: Any, flying: list[Any]) -> Any:
    """One of the tasks in flight that is done.

    Raises ``BusyError`` where the cluster is gone: Ray itself would end this process after a minute, as if by a bug.
    """
    head = ray.get_runtime_context().gcs_address
    silent = 0
    while True:
        done, _ = ray.wait(flying, num_returns=1, timeout=SECONDS)
        if done:
            return done[0]
        try:
            _reach(head)
            silent = 0
        except OSError as error:
            silent += 1
            if silent == SILENT:
                raise BusyError(
                    "the Ray cluster was lost",
                    where=head,
                    found=type(error).__name__,
                    remedy="look at the head node of the cluster; run again: nothing was published",
                ) from None


def _call(work: Callable[[Any], Any], task: Any) -> Any:
    one_each()  # a cluster that runs already has an environment of its own
    return work(task)


def _answer(ray: Any, done: Any, task: Any) -> Any:
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
    """A connection to the cluster, or a local one for this run alone."""
    if ray.is_initialized():
        yield
        return
    # Ray puts its own handler for SIGTERM in place, which would take the run's exit code away.
    held = signal.getsignal(signal.SIGTERM)
    address = os.environ.get("RAY_ADDRESS")
    # "local" is said, or Ray would take any cluster that was ever started on this machine.
    local = {} if address else {"num_cpus": workers, "include_dashboard": False}
    try:
        _reach(address)
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
        _restore(held)
    try:
        yield
    finally:
        ray.shutdown()
        _restore(held)


def _reach(address: str | None) -> None:
    """Raise ``OSError`` where nothing answers at "host:port": Ray itself would try for ten minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=SECONDS).close()


def _restore(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _ray() -> Any:
    # Without usage reports, and without a warning about GPUs that are hidden from tasks that need none.
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
