"""Small training jobs on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.train.load import open_certified
from pipeline.train.recipe import load_recipe
from pipeline.train.train import Job
from tests.train import made

COMMON = {
    "precision": "fp32",
    "run.log_every": 1,
    "run.save_every": 1000,
    "batch.tokens": 400,
    "batch.multiple": 8,
}


def job(clean: Path, out: Path, changes: Mapping[str, Any] | None = None, **how: Any) -> Job:
    """A job on a folder of ``made``: LayoutLMv3 for documents, Llama with LoRA for chats; a few steps."""
    facts = open_certified(clean)
    layout = facts.kind == "layout"
    given: dict[str, Any] = {**COMMON, "run.steps": 4}
    given |= {"model.config": made.LAYOUT_CONFIG if layout else made.LLAMA_CONFIG, "optimizer.rate": 1e-3}
    if not layout:
        given |= {"model.weights": "float32", "checkpointing": False, "lora.rank": 4, "lora.dropout": 0.0}
    recipe = load_recipe("layoutlmv3" if layout else "llama-lora", {**given, **(changes or {})})
    return Job(facts, recipe, out, device="cpu", random_weights=True, **how)
