"""LayoutLMv3 of base size: what the loader costs, and what batches of like length give."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.speed.setting import Resident, device_of, job, loop_of, timed, work
from pipeline.train.ranks import Ranks

ROUNDS, BATCH = 7, 32


def loader(place: Path, out: Path, *, small: bool) -> dict[str, Any]:
    """A step fed from the shards, without any loader process, against the same step with its tensors on the card."""
    size = 4 if small else BATCH
    changes = {"batch.tokens": 0, "batch.samples": size, "batch.pad_to_longest": True}
    told, device = job(place, out, "pages", changes, small=small), device_of(small=small)
    fed, resident = loop_of(told, device), Resident(told, Ranks(0, 1, device))
    steps = [step for step in fed.order.epoch(1) if step.rows.shape[1] == size][:8]
    for loop in (fed, resident):
        timed(loop, steps, device)
    times: dict[str, list[float]] = {"fed": [], "resident": []}
    for _ in range(2 if small else ROUNDS):
        for name, loop in (("fed", fed), ("resident", resident)):
            seconds, _ = timed(loop, steps, device)
            times[name].append(1000 * seconds / len(steps))
    fed_ms, resident_ms = median(times["fed"]), median(times["resident"])
    pairs = [a / b for a, b in zip(times["fed"], times["resident"], strict=True)]
    return {
        "pages_a_step": size,
        "width": steps[0].width,
        "fed_ms": round(fed_ms, 2),
        "resident_ms": round(resident_ms, 2),
        "ratio_median": round(median(pairs), 4),
        "ratios": [round(pair, 4) for pair in pairs],
        "windows_per_second": round(1000 * size / fed_ms, 1),
        "collate_ms": _collate(fed, steps),
    }


def _collate(loop: Any, steps: Any) -> float:
    """Milliseconds of CPU time to lay one batch out."""
    import time

    began = time.perf_counter()
    for step in steps:
        loop.collator.batch(step.rows[0], step.width)
    return round(1000 * (time.perf_counter() - began) / len(steps), 3)


def padding(place: Path, out: Path, *, small: bool) -> dict[str, Any]:
    """Batches of like length against padding to the limit: useful work a second, and the loss by epoch."""
    found: dict[str, Any] = {}
    device = device_of(small=small)
    tokens = 4 * 709 if small else BATCH * 709
    for name, pad in (("padded", True), ("bucketed", False)):
        changes = {
            "batch.tokens": tokens,
            "batch.samples": 256,
            "batch.pad_to_longest": pad,
            "optimizer.rate": 1e-4,
        }
        loop = loop_of(job(place, out, "pages", changes, small=small), device)
        timed(loop, loop.order.epoch(99)[:3], device)
        seconds, epochs, done = 0.0, [], {"tokens": 0, "padded": 0, "samples": 0, "pages": 0}
        for epoch in range(1, 2 if small else 9):
            steps = loop.order.epoch(epoch)
            spent, losses = timed(loop, steps, device, start=len(epochs) * len(steps))
            seconds += spent
            epochs.append(round(sum(losses) / len(losses), 4))
            done = {key: value + done[key] for key, value in work(loop, steps).items()}
        found[name] = {
            "windows_per_second": round(done["samples"] / seconds, 1),
            "pages_per_second": round(done["pages"] / seconds, 1),
            "tokens_per_second": round(done["tokens"] / seconds),
            "useful": round(done["tokens"] / done["padded"], 4),
            "loss_by_epoch": epochs,
        }
        del loop
    found["gain"] = round(found["bucketed"]["tokens_per_second"] / found["padded"]["tokens_per_second"], 3)
    return found
