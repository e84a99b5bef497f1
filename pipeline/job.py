"""What a run is asked for, whom it tells, and what it did."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.certificate.receipt import Receipt
from pipeline.sources.fault import FileNote

if TYPE_CHECKING:
    from pipeline.commit import Outcome
    from pipeline.partition import Progress


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

    outcome: Outcome
    notes: tuple[FileNote, ...]
    faults: tuple[FileNote, ...]
    reused: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def totals(self) -> dict[str, Any]:
        """rows_read, certified, quarantined, dropped, reasons, repairs, flags."""
        totals: dict[str, Any] = self.outcome.statement.predicate["totals"]
        return totals
