"""The faults of a training job, and the error that lists those which stop it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.errors import RefusedError


class Weight(StrEnum):
    """Whether a fault stops the job."""

    REFUSE = "refuse"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that would crash, spoil or slow a training job.

    Attributes:
        check: stable name of the check that found it.
        what: one sentence.
        found, expected: in numbers or names.
        remedy: what to do.
        weight: whether the fault stops the job.
    """

    check: str
    what: str
    found: str = ""
    expected: str = ""
    remedy: str = ""
    weight: Weight = Weight.REFUSE

    def __str__(self) -> str:
        details = [
            f"{name} {value}" for name, value in (("found", self.found), ("expected", self.expected)) if value
        ]
        text = f"{self.check}: {self.what}" + (f" ({', '.join(details)})" if details else "")
        return f"{text}. {self.remedy[0].upper()}{self.remedy[1:]}." if self.remedy else text


def stopping(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The faults that stop the job."""
    return tuple(fault for fault in faults if fault.weight is Weight.REFUSE)


def refuse(faults: Sequence[Fault], *, where: str) -> None:
    """Raise ``RefusedError`` (exit 6) with every fault that stops the job, unless there is none."""
    if not (stops := stopping(faults)):
        return
    raise RefusedError(
        f"training is refused ({len(stops)} {'fault' if len(stops) == 1 else 'faults'})",
        where=where,
        found="\n         ".join(str(fault) for fault in stops),
        remedy="nothing was loaded onto a GPU; `python -m pipeline preflight` shows the same list",
    )
