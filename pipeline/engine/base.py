"""What every engine does: run tasks, hand over receipts as they come, return them in the order of the tasks.

    receipts = run_all(tasks, work, workers=8, on_receipt=progress)

``work(task)`` is a pure function: it writes its own shards and returns a receipt. An engine moves only tasks and
receipts, so that every engine gives the same bytes. ``work`` travels once to each worker, a task once: both must
pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """The one call of an engine.

    Raises:
        BusyError: a worker died (killed, out of memory); what it was doing is named. A rerun may help.
        Whatever ``work`` raised, as it was raised; the other tasks are stopped.
    """

    def __call__(
        self,
        tasks: Sequence[Task],
        work: Callable[[Task], Result],
        workers: int,
        on_receipt: Callable[[Result], None],
    ) -> list[Result]: ...


def source_of(task: object) -> str:
    """What a task reads, for a message; "" where there is none."""
    held = getattr(task, "partition", task)
    return str(getattr(held, "source", ""))


def ignore(receipt: object) -> None:
    """The ``on_receipt`` of a caller who does not watch."""
