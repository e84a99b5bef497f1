"""Options, events and summary of a run, and the watchers that receive the events."""

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


class Named(Protocol):
    """A contract, of which reports need the name only."""

    @property
    def name(self) -> str: ...


class Planned(Protocol):
    """The part of a plan that reports need: ``pipeline.plan.Plan``, or the record of an unchanged run."""

    @property
    def inputs(self) -> Sized: ...

    @property
    def contracts(self) -> Sequence[Named]: ...

    @property
    def notes(self) -> tuple[FileNote, ...]: ...

    @property
    def faults(self) -> tuple[FileNote, ...]: ...


class Watch(Protocol):
    """Receives the events of a run: the terminal, a log."""

    def planned(self, plan: Planned, tasks: int) -> None: ...

    def batch(self, progress: Progress) -> None: ...

    def partition(self, done: Receipt | FileNote) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run.

    Attributes:
        raw, clean: the raw folder and the output folder.
        schemas: the schema files.
        workers: number of processes; the result is the same with any number.
        max_quarantine: largest share of quarantined records, 0 to 1; it replaces that of each schema.
        force: whether the run reuses nothing of the previous run.
        fsync: whether each step is forced to the disk before the next; off for scratch runs.
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
    """The result of a run.

    Attributes:
        outcome: the publication.
        notes, faults: notes on files, and files that could not be read.
        reused: number of files whose receipts were reused.
        seconds: wall-clock seconds by step.
    """

    outcome: PublishOutcome
    notes: tuple[FileNote, ...]
    faults: tuple[FileNote, ...]
    reused: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def totals(self) -> dict[str, Any]:
        """The totals of the certificate: rows_read, certified, quarantined, dropped, reasons, repairs, flags."""
        totals: dict[str, Any] = self.outcome.statement.predicate["totals"]
        return totals


def exit_of(error: BaseException) -> Exit:
    """The exit code of a run that ends with an error."""
    return error.exit if isinstance(error, CleanroomError | Stopped) else Exit.BUG


class SilentWatch:
    """Ignores all events; the base class of the other watchers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def planned(self, plan: Planned, tasks: int) -> None:
        """The plan is ready; ``tasks`` partitions must be processed."""

    def batch(self, progress: Progress) -> None:
        """A batch is done; only when the partitions run in this process."""

    def partition(self, done: Receipt | FileNote) -> None:
        """A partition is done, or its file cannot be read."""

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        """The run has published."""


class WatchGroup(SilentWatch):
    """Passes each event to several watchers. The first one gets ``end`` last, so that its output comes last."""

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
