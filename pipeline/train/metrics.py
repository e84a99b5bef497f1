"""What a job tells of itself: one JSON line and one line for people every few steps, and a plot of the loss."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


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
