"""The progress of a job: loss and gradient norm one step late, a stop at the first NaN, a line every few steps."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import CleanroomError, Exit
from pipeline.train.batches import Step
from pipeline.train.rows import Int64s

# Watching a job without stopping the card: loss and gradient norm, one step late, and a stop at the first
# NaN.


class DivergedError(CleanroomError):
    """A loss or gradient that is no finite number; the weights of the last checkpoint are untouched by it."""

    exit = Exit.REFUSED


@dataclass(frozen=True, slots=True)
class Seen:
    """What one step gave.

    Attributes:
        step: its number, from 0.
        loss: mean over the supervised labels of the step, of all ranks.
        norm: of the gradients of all ranks, before clipping.
        samples: what went into it.
    """

    step: int
    loss: float
    norm: float
    samples: Step


class LossWatch:
    """Loss and norm of each step, read when they are there: the card is never waited for.

    On a GPU the numbers are copied to page-locked memory behind the step, and read after the next one is launched.

    Args:
        names: sample ids of some rows, for the message at a stop.
    """

    def __init__(self, names: Callable[[Int64s], list[str]]) -> None:
        self._names = names
        self._pending: list[tuple[int, torch.Tensor, torch.cuda.Event | None, Step]] = []

    def push(self, step: int, loss: torch.Tensor, norm: torch.Tensor, samples: Step) -> None:
        """Note a step that was launched: scalars on its device."""
        both = torch.stack([loss.detach().float().reshape(()), norm.detach().float().reshape(())])
        event = None
        if both.is_cuda:
            place = torch.empty(2, pin_memory=True)
            place.copy_(both, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            both = place
        self._pending.append((step, both, event, samples))

    def read(self, keep: int = 1) -> list[Seen]:
        """Steps whose numbers are there, all but the last ``keep``.

        Raises:
            DivergedError: one of them is not finite.
        """
        seen = []
        while len(self._pending) > keep:
            step, both, event, samples = self._pending.pop(0)
            if event is not None:
                event.synchronize()
            loss, norm = both.tolist()
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise DivergedError(
                    f"the {'loss' if not math.isfinite(loss) else 'gradient'} is no finite number",
                    where=f"step {step + 1}",
                    found=f"loss {loss}, gradient norm {norm}; samples {', '.join(self._names(samples.samples()))}",
                    remedy="certified samples hold nothing that gives a NaN by itself: lower `optimizer: rate:`, or "
                    "train in bf16 or fp32; `python -m pipeline explain` replays the batch",
                )
            seen.append(Seen(step, loss, norm, samples))
        return seen


# What a job tells of itself: one JSON line and one line for people every few steps, and a plot of the loss.


class Metrics:
    """Loss, throughput and memory of a job; written by the first rank only.

    Args:
        folder: of the job; ``metrics.jsonl`` and ``loss.svg`` go there.
        device: whose memory is told.
        unit: what a useful unit of work is called beside tokens ("pages" or "samples").
    """

    def __init__(self, folder: Path, device: torch.device, unit: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._device, self._unit = folder, device, unit
        self._file = (folder / "metrics.jsonl").open("a")
        self._since = time.perf_counter()
        self._tokens = self._padded = self._samples = self._steps = 0
        self.losses: list[tuple[int, float]] = []

    def count(self, tokens: int, padded: int, samples: int) -> None:
        """Add a step's work, of all ranks: real tokens, tokens with pads, samples."""
        self._tokens += tokens
        self._padded += padded
        self._samples += samples
        self._steps += 1

    def log(self, step: int, loss: float, norm: float, rate: float) -> dict[str, Any]:
        """Write what was counted since the last call."""
        seconds = time.perf_counter() - self._since
        line = {
            "step": step,
            "loss": loss,
            "grad_norm": norm,
            "learning_rate": rate,
            "tokens_per_second": round(self._tokens / seconds, 1),
            f"{self._unit}_per_second": round(self._samples / seconds, 2),
            "useful": round(self._tokens / max(1, self._padded), 4),
            "step_ms": round(1000 * seconds / max(1, self._steps), 2),
        }
        if self._device.type == "cuda":
            line["memory_gib"] = round(torch.cuda.max_memory_allocated(self._device) / 2**30, 3)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        self.losses.append((step, loss))
        self._since = time.perf_counter()
        self._tokens = self._padded = self._samples = self._steps = 0
        return line

    def close(self) -> None:
        """Draw the loss and end."""
        self._file.close()
        if self.losses:
            (self._folder / "loss.svg").write_text(plot(self.losses))


def plot(points: Sequence[tuple[int, float]], width: int = 720, height: int = 320) -> str:
    """A line plot of (step, loss), as SVG."""
    margin = 48
    steps, losses = [s for s, _ in points], [v for _, v in points]
    low, high = min(losses), max(losses)
    across, up = max(1, steps[-1] - steps[0]), (high - low) or 1.0
    places = " ".join(
        f"{margin + (s - steps[0]) / across * (width - 2 * margin):.1f},"
        f"{height - margin - (v - low) / up * (height - 2 * margin):.1f}"
        for s, v in points
    )
    frame = f"M{margin},{margin} V{height - margin} H{width - margin}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="white"/><path d="{frame}" fill="none" stroke="#888"/>'
        f'<polyline points="{places}" fill="none" stroke="#0b6" stroke-width="1.5"/>'
        f'<text x="4" y="{margin + 4}">{high:.4g}</text><text x="4" y="{height - margin + 4}">{low:.4g}</text>'
        f'<text x="{margin}" y="{height - 28}">{steps[0]}</text>'
        f'<text x="{width - margin}" y="{height - 28}" text-anchor="end">step {steps[-1]}</text>'
        f'<text x="{margin}" y="24">loss</text></svg>\n'
    )
