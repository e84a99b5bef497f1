"""Explain a crash: the hazard and the samples, with their file, sheet and row, or that the data is not the cause."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import InputError
from pipeline.train.batch_dump import Dumped, read_dump
from pipeline.train.crash_signatures import SIGNATURES, Blame, Signature
from pipeline.train.load import open_certified
from pipeline.train.rows import CertifiedRows, CertifiedSet

LARGEST_LOG = 64 << 20
SUSPECTS = 4
"""Number of steps of a dump whose samples are suspects: an error of a GPU appears a few launches after its cause."""
STEP = re.compile(r"(?:\bstep\b|'?\"?step\"?'?:)\s*(\d+)", re.I)


@dataclass(frozen=True, slots=True)
class Clue:
    """A crash signature found in a log, with the first line that shows it, counted from 1."""

    signature: Signature
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """One sample that was on the GPU, with its place in the raw files."""

    step: int
    rank: int
    row: int
    sample_id: str
    source: str
    sheet: str | None
    source_row: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a crash.

    Attributes:
        clues: the surest first.
        suspects: samples of the last dumped steps.
        data: their certified data set; None without a dump.
        step: the last step in the log; None where the log names none.
    """

    clues: tuple[Clue, ...]
    suspects: tuple[Suspect, ...] = ()
    data: CertifiedSet | None = None
    step: int | None = None

    @property
    def blame(self) -> Blame | None:
        """Data, set-up or machine, by the surest clue; None without a clue."""
        return self.clues[0].signature.blame if self.clues else None


def verdict(found: Explanation) -> str:
    """The cause in one sentence."""
    if found.blame is None:
        return "nothing known: keep stderr as well, that is where a card's asserts stand"
    if found.blame is not Blame.DATA:
        return f"the data is innocent: a {found.blame.value} fault"
    if found.data is None:
        return "a data fault: certify the data, or let `audit` find the rows; with --batches the samples are named"
    return (
        "the shards are certified, so the fault lies between shard and model: rows changed after they were loaded, "
        "another collator, or another model than preflight judged; --replay names the lookup"
    )


def read_log(path: Path) -> list[str]:
    """The lines of a log, with bytes that are not text replaced; raises ``InputError`` where it cannot be read."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - LARGEST_LOG))
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise InputError("the log cannot be read", where=str(path), found=error.strerror or "") from None


def clues(lines: Sequence[str]) -> tuple[Clue, ...]:
    """Every signature in a log once, the surest first. Among equal ones the earliest comes first, because later errors
    follow from it."""
    found: dict[str, Clue] = {}
    for number, line in enumerate(lines, 1):
        head = line[:4_000]  # longer lines are printed tensors
        for signature in SIGNATURES:
            if signature.name not in found and signature.pattern.search(head):
                found[signature.name] = Clue(signature, number, head.strip()[:200])
    return tuple(sorted(found.values(), key=lambda clue: (-clue.signature.weight, clue.line)))


def explain(log: Path | None, dumps: Sequence[Path] = (), clean: Path | None = None) -> Explanation:
    """Explain a crash from its log, its dumped batches, or both.

    Args:
        log: stdout and stderr of the job; stderr is the important one.
        dumps: ``batches-rank*.jsonl`` of ``train --dump-batches``.
        clean: the output folder of the data, if it has moved since the dump.

    Raises:
        InputError: a file cannot be read.
        RefusedError: the data that the dump names is not certified.
    """
    lines = read_log(log) if log is not None else []
    steps = [int(match[1]) for line in lines[-2_000:] if len(line) < 4_000 and (match := STEP.search(line))]
    suspects: list[Suspect] = []
    data = None
    for dump in dumps:
        head, dumped = read_dump(dump)
        data = open_certified(clean or str(head["clean"]), str(head["dataset"]))
        if data.root != head["root"]:
            raise InputError(
                "the folder was published again since the job ran",
                where=str(data.clean),
                found=data.root[:20],
                expected=str(head["root"])[:20],
                remedy="name the folder the job was trained on with --clean",
            )
        suspects += _suspects(CertifiedRows(data), int(head.get("rank", 0)), dumped[-SUSPECTS:])
    return Explanation(clues(lines), tuple(suspects), data, max(steps) if steps else None)


def _suspects(rows: CertifiedRows, rank: int, steps: Sequence[Dumped]) -> list[Suspect]:
    found = []
    for step in reversed(steps):
        for row in sorted({row for micro in step.rows for row in micro if row >= 0}):
            sample = rows[row]
            place = sample["source"], sample["sheet"], sample["row"]
            found.append(Suspect(step.step + 1, rank, row, sample["sample_id"], *place))
    return found
