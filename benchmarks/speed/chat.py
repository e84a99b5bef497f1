"""An 8-billion-parameter Llama with LoRA: padding to the limit, batches of like length, packed samples."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.setting import device_of, job, loop_of, timed, work

WIDTH, SAMPLES = 1024, 4


def chat(place: Path, out: Path, *, small: bool) -> dict[str, Any]:
    """Useful tokens a second of each way, and their losses by samples seen."""
    found: dict[str, Any] = {}
    device = device_of(small=small)
    ways = {"padded": ("dialogues", True), "bucketed": ("dialogues", False), "packed": ("packed", False)}
    for name, (dataset, pad) in ways.items():
        changes = {
            "batch.tokens": WIDTH * SAMPLES,
            "batch.samples": 128,
            "batch.pad_to_longest": pad,
            "optimizer.warmup": 0.0,
            "lora.dropout": 0.0,
        }
        loop = loop_of(job(place, out, dataset, changes, small=small), device)
        steps = loop.order.epoch(1)
        timed(loop, steps[:2], device)
        steps = steps[: 3 if small else {"padded": 110, "bucketed": 90, "packed": 90}[name]]
        seconds, losses = timed(loop, steps, device, start=2)
        done = work(loop, steps)
        tenth = max(1, len(losses) // 10)
        found[name] = {
            "steps": len(steps),
            "step_ms": round(1000 * seconds / len(steps), 1),
            "tokens_per_second": round(done["tokens"] / seconds),
            "padded_tokens_per_second": round(done["padded"] / seconds),
            "useful": round(done["tokens"] / done["padded"], 4),
            "samples_per_second": round(done["samples"] / seconds, 2),
            "loss_first_tenth": round(sum(losses[:tenth]) / tenth, 4),
            "loss_last_tenth": round(sum(losses[-tenth:]) / tenth, 4),
        }
        if device.type == "cuda":
            found[name]["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
            torch.cuda.reset_peak_memory_stats()
        del loop
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    for name in ("bucketed", "packed"):
        found[f"{name}_gain"] = round(
            found[name]["tokens_per_second"] / found["padded"]["tokens_per_second"], 3
        )
    return found
