"""The local engine: this process for one worker, a pool of processes for more.

The standard pools do not fit: this one knows the task of a worker that died, never waits for a worker that cannot
answer, and leaves no worker behind, because a worker ends itself when its driver is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any

from pipeline.engine.base import Result, Task, ignore, source_of
from pipeline.errors import BusyError


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Result],
    workers: int = 1,
    on_receipt: Callable[[Result], None] = ignore,
) -> list[Result]:
    """Run every task and return the results in the order of the tasks (see ``pipeline.engine.base``)."""
    if min(workers, len(tasks)) <= 1:
        results = []
        for task in tasks:
            results.append(work(task))
            on_receipt(results[-1])
        return results
    with _Pool(work, min(workers, len(tasks))) as pool:
        return pool.run(tasks, on_receipt)


@dataclass(slots=True)
class _Worker:
    process: ForkServerProcess
    pipe: Connection
    task: int | None = None


class _Pool:
    """Worker processes that each run one task at a time."""

    def __init__(self, work: Callable[[Any], Any], size: int) -> None:
        # forkserver, because threads of this process (Arrow, tokenizers) do not survive a fork.
        self._context = multiprocessing.get_context("forkserver")
        self._work = work
        self._size = size
        self._workers: list[_Worker] = []

    def __enter__(self) -> _Pool:
        try:
            for _ in range(self._size):
                ours, theirs = self._context.Pipe()
                process = self._context.Process(target=_serve, args=(theirs, self._work), daemon=True)
                process.start()
                theirs.close()
                self._workers.append(_Worker(process, ours))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.process.close()

    def run(self, tasks: Sequence[Any], on_receipt: Callable[[Any], None]) -> list[Any]:
        waiting = deque(range(len(tasks)))
        results: list[Any] = [None] * len(tasks)
        for worker in self._workers:
            self._send_next(worker, waiting, tasks)
        while busy := [worker for worker in self._workers if worker.task is not None]:
            ready = set(map(id, wait([h for w in busy for h in (w.pipe, w.process.sentinel)])))
            for worker in busy:
                if not ready & {id(worker.pipe), id(worker.process.sentinel)}:
                    continue
                index, result = self._receive(worker, tasks)
                results[index] = result
                on_receipt(result)
                self._send_next(worker, waiting, tasks)
        return results

    def _send_next(self, worker: _Worker, waiting: deque[int], tasks: Sequence[Any]) -> None:
        worker.task = waiting.popleft() if waiting else None
        if worker.task is not None:
            try:
                worker.pipe.send(tasks[worker.task])
            except (BrokenPipeError, ConnectionResetError):
                raise self._death_error(worker, tasks) from None

    def _receive(self, worker: _Worker, tasks: Sequence[Any]) -> tuple[int, Any]:
        try:
            # A worker may answer and then die, so the pipe decides, not the process.
            if not worker.pipe.poll():
                raise EOFError
            succeeded, value = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._death_error(worker, tasks) from None
        if not succeeded:
            raise value
        assert worker.task is not None  # noqa: S101
        return worker.task, value

    def _death_error(self, worker: _Worker, tasks: Sequence[Any]) -> BusyError:
        worker.process.join(timeout=5)
        code = worker.process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = f"signal {signal.Signals(-code).name}"
        return BusyError(
            "a worker process died",
            where="" if worker.task is None else source_of(tasks[worker.task]),
            found=how + (" (the system kills so when memory runs out)" if code == -signal.SIGKILL else ""),
            remedy="run again, with fewer --workers if memory is short; nothing was published",
        )


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """The loop of a worker process."""
    # Only the driver handles signals of the terminal; it ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, work(task))
        except Exception as error:
            answer = (False, _picklable(error))
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return


def _picklable(error: Exception) -> Exception:
    """The error in a form that pickles, with its traceback as a note."""
    error.add_note("".join(traceback.format_tb(error.__traceback__)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made on this very line
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_driver() -> None:
    """End this process as soon as the driver process is gone."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        wait([driver.sentinel])
        os._exit(os.EX_TEMPFAIL)
