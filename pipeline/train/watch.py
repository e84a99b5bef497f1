"""Watching a job without stopping the card: loss and gradient norm, one step late, and a stop at the first NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from pipeline.errors import CleanroomError
from pipeline.exits import Exit
from pipeline.train.batches import Step
from pipeline.train.ragged import Int64s


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


class Watch:
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
