"""The progress of a job: the loss and gradient norm of each step, a stop at the first NaN, and the log of metrics."""

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


class DivergedError(CleanroomError):
    """A loss or gradient is not finite. The last checkpoint has the weights of before."""

    exit = Exit.REFUSED


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step.

    Attributes:
        step: its number, from 0.
        loss: mean over the supervised labels of the step on all ranks.
        norm: of the gradients of all ranks, before clipping.
        samples: the samples of the step.
    """

    step: int
    loss: float
    norm: float
    samples: Step


class LossWatch:
    """The loss and the gradient norm of each step, read one step later, so that the GPU never waits.

    A GPU copies the numbers to page-locked memory after the step; they are read after the launch of the next one.

    Args:
        names: gives the sample ids of some rows, for the error message.
    """

    def __init__(self, names: Callable[[Int64s], list[str]]) -> None:
        self._names = names
        self._pending: list[tuple[int, torch.Tensor, torch.cuda.Event | None, Step]] = []

    def push(self, step: int, loss: torch.Tensor, norm: torch.Tensor, samples: Step) -> None:
        """Add a launched step; loss and norm are scalars on its device."""
        both = torch.stack([loss.detach().float().reshape(()), norm.detach().float().reshape(())])
        event = None
        if both.is_cuda:
            pinned = torch.empty(2, pin_memory=True)
            pinned.copy_(both, non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            both = pinned
        self._pending.append((step, both, event, samples))

    def read(self, keep: int = 1) -> list[StepResult]:
        """The results of all pending steps except the last ``keep``.

        Raises:
            DivergedError: a loss or norm is not finite.
        """
        results = []
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
            results.append(StepResult(step, loss, norm, samples))
        return results


class Metrics:
    """The loss, throughput and memory of a job, written by the first rank only.

    Args:
        folder: of the job, for ``metrics.jsonl`` and ``loss.svg``.
        device: the device whose memory is measured.
        unit: the name of a sample in the metrics ("pages" or "samples").
    """

    def __init__(self, folder: Path, device: torch.device, unit: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._device, self._unit = folder, device, unit
        self._file = (folder / "metrics.jsonl").open("a")
        self._since = time.perf_counter()
        self._tokens = self._padded = self._samples = self._steps = 0
        self.losses: list[tuple[int, float]] = []

    def count(self, tokens: int, padded: int, samples: int) -> None:
        """Add the work of a step on all ranks: number of tokens, of tokens with pads, and of samples."""
        self._tokens += tokens
        self._padded += padded
        self._samples += samples
        self._steps += 1

    def log(self, step: int, loss: float, norm: float, rate: float) -> dict[str, Any]:
        """Write the metrics since the last call as one line of JSON, and return them."""
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
        """Close the file and draw the loss."""
        self._file.close()
        if self.losses:
            (self._folder / "loss.svg").write_text(plot(self.losses))


def plot(points: Sequence[tuple[int, float]], width: int = 720, height: int = 320) -> str:
    """A line plot of (step, loss), as SVG."""
    margin = 48
    steps, losses = [s for s, _ in points], [v for _, v in points]
    low, high = min(losses), max(losses)
    x_range, y_range = max(1, steps[-1] - steps[0]), (high - low) or 1.0
    polyline = " ".join(
        f"{margin + (s - steps[0]) / x_range * (width - 2 * margin):.1f},"
        f"{height - margin - (v - low) / y_range * (height - 2 * margin):.1f}"
        for s, v in points
    )
    frame = f"M{margin},{margin} V{height - margin} H{width - margin}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="white"/><path d="{frame}" fill="none" stroke="#888"/>'
        f'<polyline points="{polyline}" fill="none" stroke="#0b6" stroke-width="1.5"/>'
        f'<text x="4" y="{margin + 4}">{high:.4g}</text><text x="4" y="{height - margin + 4}">{low:.4g}</text>'
        f'<text x="{margin}" y="{height - 28}">{steps[0]}</text>'
        f'<text x="{width - margin}" y="{height - 28}" text-anchor="end">step {steps[-1]}</text>'
        f'<text x="{margin}" y="24">loss</text></svg>\n'
    )
