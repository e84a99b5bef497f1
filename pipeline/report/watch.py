"""What a run tells while it goes on; the terminal and the log say it each in its way."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from pipeline.errors import CleanroomError
from pipeline.exits import Exit
from pipeline.signals import Stopped

if TYPE_CHECKING:
    from pipeline.certificate.receipt import Receipt
    from pipeline.job import Options, Planned, Summary
    from pipeline.partition import Progress
    from pipeline.sources.fault import FileNote


def exit_of(error: BaseException) -> Exit:
    """The exit code that an error ends the run with."""
    return error.exit if isinstance(error, CleanroomError | Stopped) else Exit.BUG


class Watch:
    """Tells nothing; the base of those that do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def planned(self, plan: Planned, tasks: int) -> None:
        """The plan is made; ``tasks`` partitions are left to do."""

    def batch(self, progress: Progress) -> None:
        """A batch is done (only where the partitions run in this process)."""

    def partition(self, done: Receipt | FileNote) -> None:
        """A partition is done, or its file failed."""

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        """The run is over."""
