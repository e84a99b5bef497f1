"""Jobs of the speed benchmark: models of real size from random weights, or tiny ones to try the program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pipeline.train.batches import Step
from pipeline.train.collate import Minibatch
from pipeline.train.load import open_certified
from pipeline.train.ranks import Ranks
from pipeline.train.recipe import load_recipe
from pipeline.train.rows import Int64s
from pipeline.train.train import Job, Loop

LAYOUT_BASE: dict[str, Any] = {
    "model_type": "layoutlmv3",
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "coordinate_size": 128,
    "shape_size": 128,
    "input_size": 224,
    "patch_size": 16,
}
LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 128000,
    "eos_token_id": 128009,
}
TINY = {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


def job(place: Path, out: Path, dataset: str, changes: dict[str, Any], *, small: bool) -> Job:
    """A job on one data set of the built folder."""
    facts = open_certified(place / "clean", dataset)
    layout = facts.kind == "layout"
    config = dict(LAYOUT_BASE if layout else LLAMA_8B)
    if small:
        config |= TINY | ({"coordinate_size": 16, "shape_size": 16} if layout else {"num_key_value_heads": 2})
    given = {
        "model.config": config,
        "run.log_every": 1 << 30,
        "run.save_every": 1 << 30,
        "run.steps": 1 << 20,
    }
    recipe = load_recipe("layoutlmv3" if layout else "llama-lora", given | changes)
    return Job(facts, recipe, out, "cpu" if small else "cuda", random_weights=True)


def device_of(*, small: bool) -> torch.device:
    """The card, or the CPU."""
    return torch.device("cpu") if small else torch.device("cuda", 0)


def loop_of(told: Job, device: torch.device) -> Loop:
    """The training loop of a job on one device."""
    return Loop(told, Ranks(0, 1, device))


class Resident(Loop):
    """The same loop with every batch on the device already: what a loader that costs nothing would give."""

    def __init__(self, job: Job, ranks: Ranks) -> None:
        super().__init__(job, ranks)
        self._held: dict[bytes, Minibatch] = {}

    def _batch(self, rows: Int64s, step: Step) -> Minibatch:
        key = rows.tobytes()
        if key not in self._held:
            self._held[key] = super()._batch(rows, step)
        return self._held[key]


def wait(device: torch.device) -> None:
    """Until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(
    loop: Loop, steps: Sequence[Step], device: torch.device, start: int = 0
) -> tuple[float, list[float]]:
    """Seconds of some updates, and their losses."""
    wait(device)
    began = time.perf_counter()
    losses = []
    for k, step in enumerate(steps):
        loop.update(start + k, step)
        losses += [seen.loss for seen in loop.watch.read()]
    losses += [seen.loss for seen in loop.watch.read(keep=0)]
    wait(device)
    return time.perf_counter() - began, losses


def work(loop: Loop, steps: Sequence[Step]) -> dict[str, int]:
    """Real tokens, padded tokens, windows and pages of some steps."""
    rows = [int(row) for step in steps for row in step.samples()]
    ids = loop.rows.table["sample_id"]
    pages = {ids[row].as_py().rpartition("#w")[0] or row for row in rows}
    return {
        "tokens": sum(loop.collator.tokens(step.samples()) for step in steps),
        "padded": sum(step.rows.size * step.width for step in steps),
        "samples": len(rows),
        "pages": len(pages),
    }
