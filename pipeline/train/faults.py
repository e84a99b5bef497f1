"""What speaks against a training job, all of it at once."""

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
    """One thing that would crash, spoil or slow a training job.

    Attributes:
        check: stable name of the check that found it.
        what: one sentence.
        found, expected: in numbers or names.
        remedy: what to do.
        weight: whether it stops the job.
    """

    check: str
    what: str
    found: str = ""
    expected: str = ""
    remedy: str = ""
    weight: Weight = Weight.REFUSE

    def __str__(self) -> str:
        facts = [f"{name} {value}" for name in ("found", "expected") if (value := getattr(self, name))]
        text = f"{self.check}: {self.what}" + (f" ({', '.join(facts)})" if facts else "")
        return f"{text}. {self.remedy[0].upper()}{self.remedy[1:]}." if self.remedy else text


def stopping(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Those that stop the job."""
    return tuple(fault for fault in faults if fault.weight is Weight.REFUSE)


def refuse(faults: Sequence[Fault], *, where: str) -> None:
    """Raise ``RefusedError`` (exit 6) with every fault that stops the job, if there is one."""
    if not (stops := stopping(faults)):
        return
    raise RefusedError(
        f"training is refused ({len(stops)} {'fault' if len(stops) == 1 else 'faults'})",
        where=where,
        found="\n         ".join(str(fault) for fault in stops),
        remedy="nothing was loaded onto a GPU; `python -m pipeline preflight` shows the same list",
    )
