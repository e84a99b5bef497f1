"""The same jobs on one card and on all of a host's: same samples, same losses, more a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.setting import job, timed, work
from pipeline.train.ranks import Ranks, joined
from pipeline.train.train import Loop

STEPS = 24


def ranks(place: Path, out: Path, *, small: bool) -> None:
    """Run each job on all ranks, then on the first alone; the first rank writes ``ranks.json``."""
    with joined("cpu" if small else "cuda") as here:
        found: dict[str, Any] = {}
        for dataset, tokens in (("pages", 16384), ("dialogues", 4096)):
            changes = {
                "batch.tokens": 2048 if small else tokens,
                "batch.samples": 64,
                "batch.micro_batches": here.world,
                "optimizer.warmup": 0.0,
                "run.seed": 3,
            }
            told = job(place, out, dataset, changes, small=small)
            both = _run(told, here, 4 if small else STEPS)
            here.wait()
            alone = _run(told, Ranks(0, 1, here.device), 4 if small else STEPS) if here.first else {}
            here.wait()
            if here.first:
                gaps = [abs(a - b) / abs(b) for a, b in zip(both["losses"], alone["losses"], strict=True)]
                found[dataset] = {
                    "world": here.world,
                    "together": both,
                    "alone": alone,
                    "largest_loss_gap": max(gaps),
                    "speed_up": round(both["tokens_per_second"] / alone["tokens_per_second"], 3),
                }
        if here.first:
            (out / "ranks.json").write_text(json.dumps(found, indent=2))
            print(json.dumps(found), flush=True)


def _run(told: Any, here: Ranks, count: int) -> dict[str, Any]:
    loop = Loop(told, here)
    steps = loop.order.epoch(1)[:count]
    _, first = timed(loop, steps[:2], here.device)
    seconds, losses = timed(loop, steps[2:], here.device, start=2)
    done = work(loop, steps[2:])
    del loop
    if here.device.type == "cuda":
        torch.cuda.empty_cache()
    return {
        "tokens_per_second": round(done["tokens"] / seconds),
        "samples_per_second": round(done["samples"] / seconds, 2),
        "step_ms": round(1000 * seconds / len(steps[2:]), 1),
        "losses": [round(v, 5) for v in first + losses],
    }
