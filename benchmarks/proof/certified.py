"""Train on the certified shards of the same data: at least 1,000 steps of each data set in float32 and bfloat16."""

from __future__ import annotations

import json
import os
import time
import traceback
from pathlib import Path
from typing import Any

JOBS = {
    "forms": ("layoutlmv3", "layoutlmv3"),
    "forms_ids": ("layoutlmv3", "layoutlmv3"),
    "chats": ("llama-lora", "llama"),
    "tokens": ("llama-lora", "tokens"),
}


def certified(place: Path, out: Path, steps: int, device: str, parallel: int) -> dict[str, Any]:
    """Run every job, several at a time; each result has its steps, first and last loss, or what stopped it."""
    _warm()
    queue = [(name, precision) for name in JOBS for precision in ("fp32", "bf16")]
    running: dict[int, tuple[str, str]] = {}
    results: dict[str, Any] = {}
    while queue or running:
        while queue and len(running) < parallel:
            name, precision = queue.pop(0)
            child = os.fork()
            if child == 0:
                _child(place, out / f"{name}-{precision}", name, precision, steps, device)
            running[child] = (name, precision)
        child, _ = os.wait()
        name, precision = running.pop(child)
        file = out / f"{name}-{precision}" / "result.json"
        results[f"{name} {precision}"] = (
            json.loads(file.read_text()) if file.exists() else {"died": "no result"}
        )
    return results


def _warm() -> None:
    import peft  # noqa: F401
    import torch  # noqa: F401
    from transformers.models.layoutlmv3 import modeling_layoutlmv3  # noqa: F401
    from transformers.models.llama import modeling_llama  # noqa: F401


def _child(place: Path, out: Path, name: str, precision: str, steps: int, device: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    handle = os.open(out / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    began = time.perf_counter()
    try:
        trained = _train(place, out, name, precision, steps, device)
        losses = [loss for _, loss in trained.losses]
        result = {
            "steps": trained.steps,
            "first_loss": losses[0],
            "last_loss": losses[-1],
            "finite": all(loss == loss and abs(loss) < float("inf") for loss in losses),
        }
    except BaseException as error:
        traceback.print_exc()
        result = {"died": f"{type(error).__name__}: {error}"[:300]}
    result["seconds"] = round(time.perf_counter() - began, 1)
    (out / "result.json").write_text(json.dumps(result))
    os._exit(0)


def _train(place: Path, out: Path, name: str, precision: str, steps: int, device: str) -> Any:
    from pipeline.train.faults import refuse
    from pipeline.train.load import open_certified
    from pipeline.train.preflight import preflight
    from pipeline.train.recipe import load_recipe
    from pipeline.train.train import Job, train

    recipe, model = JOBS[name]
    changes: dict[str, Any] = {
        "model.path": str(place / "models" / model),
        "precision": precision,
        "run.steps": steps,
        "run.log_every": 1,
        "run.save_every": steps,
        "batch.tokens": 8192,
        "optimizer.rate": 3e-4,
        "model.weights": "float32",
        "checkpointing": False,
    }
    if recipe == "llama-lora":
        changes["lora"] = None  # every weight is trained, so that every gradient is looked at
    facts, told = open_certified(place / "clean", name), load_recipe(recipe, changes)
    refuse(preflight(facts, told, device=device).faults, where=name)
    return train(Job(facts, told, out, device, random_weights=True, dump=True))
