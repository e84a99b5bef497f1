"""Several watchers of one run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pipeline.exits import Exit
from pipeline.report.watch import Watch

if TYPE_CHECKING:
    from pipeline.certificate.receipt import Receipt
    from pipeline.job import Options, Planned, Summary
    from pipeline.partition import Progress
    from pipeline.sources.fault import FileNote


class Several(Watch):
    """Tells each in turn; the first given is told of the end last, so that its last word is the run's."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = watches
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for watch in self._watches:
                stack.enter_context(watch)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def planned(self, plan: Planned, tasks: int) -> None:
        for watch in self._watches:
            watch.planned(plan, tasks)

    def batch(self, progress: Progress) -> None:
        for watch in self._watches:
            watch.batch(progress)

    def partition(self, done: Receipt | FileNote) -> None:
        for watch in self._watches:
            watch.partition(done)

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        for watch in reversed(self._watches):
            watch.end(options, summary, code)
