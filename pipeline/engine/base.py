"""The protocol of engines: run tasks, report each receipt as it comes, return all in the order of the tasks.

    receipts = run_all(tasks, work, workers=8, on_receipt=progress)

``work(task)`` writes its own shards and returns a receipt that depends on the task alone. An engine moves only tasks
and receipts, so every engine gives the same bytes. Tasks, receipts and ``work`` must pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs all tasks.

    Raises:
        BusyError: a worker process died (killed, out of memory); the error names its task. A rerun may help.

    An error of ``work`` passes through unchanged and stops the other tasks.
    """

    def __call__(
        self,
        tasks: Sequence[Task],
        work: Callable[[Task], Result],
        workers: int,
        on_receipt: Callable[[Result], None],
    ) -> list[Result]: ...


def source_of(task: object) -> str:
    """The source that a task reads, for a message; "" for a task without one."""
    partition = getattr(task, "partition", task)
    return str(getattr(partition, "source", ""))


def ignore(receipt: object) -> None:
    """The default ``on_receipt``: does nothing."""
