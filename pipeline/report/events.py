"""Events of a run: what it is asked for, whom it tells, and what it did."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pipeline.certificate.receipt import Receipt
from pipeline.errors import CleanroomError, Exit
from pipeline.findings import FileNote
from pipeline.process import Stopped

if TYPE_CHECKING:
    from pipeline.publish import PublishOutcome
    from pipeline.worker import Progress


# What a run is asked for, whom it tells, and what it did.


class Named(Protocol):
    """A contract, as far as a report names it."""

    @property
    def name(self) -> str: ...


class Planned(Protocol):
    """What is told of a plan: ``pipeline.plan.Plan`` is one, and so is what a run knows that finds nothing changed."""

    @property
    def inputs(self) -> Sized: ...

    @property
    def contracts(self) -> Sequence[Named]: ...

    @property
    def notes(self) -> tuple[FileNote, ...]: ...

    @property
    def faults(self) -> tuple[FileNote, ...]: ...


class Watch(Protocol):
    """Whoever is told how the run goes: the terminal, a log, nobody."""

    def planned(self, plan: Planned, tasks: int) -> None: ...

    def batch(self, progress: Progress) -> None: ...

    def partition(self, done: Receipt | FileNote) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller chose.

    Attributes:
        workers: processes; the result is the same with any number.
        max_quarantine: largest share of quarantined records, instead of each schema's own.
        force: whether nothing of the previous run is reused.
        fsync: whether everything is on the disk before the next step; off for scratch runs.
        engine: ``local`` or ``ray``.
        keys: private keys that sign the certificate.
    """

    raw: Path
    clean: Path
    schemas: tuple[Path, ...]
    workers: int = 1
    max_quarantine: float | None = None
    force: bool = False
    fsync: bool = True
    engine: str = "local"
    keys: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did.

    Attributes:
        outcome: the commit.
        notes, faults: what is said of files, and files that could not be read.
        reused: number of files whose result was taken over.
        seconds: wall-clock time by step.
    """

    outcome: PublishOutcome
    notes: tuple[FileNote, ...]
    faults: tuple[FileNote, ...]
    reused: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def totals(self) -> dict[str, Any]:
        """rows_read, certified, quarantined, dropped, reasons, repairs, flags."""
        totals: dict[str, Any] = self.outcome.statement.predicate["totals"]
        return totals


# What a run tells while it goes on; the terminal and the log say it each in its way.


def exit_of(error: BaseException) -> Exit:
    """The exit code that an error ends the run with."""
    return error.exit if isinstance(error, CleanroomError | Stopped) else Exit.BUG


class SilentWatch:
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


# Several watchers of one run.


class WatchGroup(SilentWatch):
    """Tells each in turn; the first given is told of the end last, so that its last word is the run's."""

    def __init__(self, watches: Sequence[SilentWatch]) -> None:
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
