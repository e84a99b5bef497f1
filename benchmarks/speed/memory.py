"""The memory estimate of preflight against peaks measured on a card."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.setting import LAYOUT_BASE, LLAMA_8B, device_of, job, loop_of, timed
from pipeline.train import memory as estimates
from pipeline.train.model import config_of
from pipeline.train.train import budget_of

LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "coordinate_size": 171,
    "shape_size": 170,
}
SMALL = {"hidden_size": 2048, "num_hidden_layers": 16, "intermediate_size": 8192}
GRID: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    ("LayoutLMv3-base bf16, 8k tokens *", "pages", {}, {"batch.tokens": 8 * 1024}),
    ("LayoutLMv3-base bf16, 32k tokens *", "pages", {}, {"batch.tokens": 32 * 1024}),
    ("LayoutLMv3-base fp32, 4k tokens *", "pages", {}, {"batch.tokens": 4 * 1024, "precision": "fp32"}),
    ("LayoutLMv3-base fp32, 16k tokens *", "pages", {}, {"batch.tokens": 16 * 1024, "precision": "fp32"}),
    ("LayoutLMv3-base bf16, 16k tokens", "pages", {}, {"batch.tokens": 16 * 1024}),
    ("LayoutLMv3-large bf16, 8k tokens", "pages", LARGE, {"batch.tokens": 8 * 1024}),
    ("LayoutLMv3-large fp32, 8k tokens", "pages", LARGE, {"batch.tokens": 8 * 1024, "precision": "fp32"}),
    ("Llama 8B LoRA, 4k tokens, checkpointing *", "dialogues", {}, {"batch.tokens": 4096}),
    ("Llama 8B LoRA, 16k tokens, checkpointing *", "dialogues", {}, {"batch.tokens": 16384}),
    ("Llama 8B LoRA, 4k tokens *", "dialogues", {}, {"batch.tokens": 4096, "checkpointing": False}),
    ("Llama 8B LoRA, packed 8k tokens, checkpointing", "packed", {}, {"batch.tokens": 8192}),
    ("Llama 1B LoRA, 16k tokens, checkpointing", "dialogues", SMALL, {"batch.tokens": 16384}),
    ("Llama 1B LoRA, 8k tokens", "dialogues", SMALL, {"batch.tokens": 8192, "checkpointing": False}),
)
"""Jobs; the numbers of ``pipeline.train.memory`` were taken from those with a star, the others test them."""


def memory(place: Path, out: Path, *, small: bool) -> dict[str, Any]:
    """Peak of three steps of the largest batch, measured and estimated, in GiB."""
    found: dict[str, Any] = {}
    device = device_of(small=small)
    for name, dataset, config_changes, changes in GRID:
        base = LAYOUT_BASE if dataset == "pages" else LLAMA_8B
        given = {**changes, "batch.samples": 1 << 16} | (
            {} if small else {"model.config": base | config_changes}
        )
        told = job(place, out, dataset, given, small=small)
        counted, budget = (
            estimates.parameters(told.recipe, told.certified),
            budget_of(told.certified, told.recipe),
        )
        config, longest = (
            config_of(told.recipe, told.certified),
            told.certified.number("input_ids", "longest") or 1,
        )
        share = estimates.supervised_share(told.certified)
        guess = estimates.estimate(told.recipe, counted, config, budget, longest, share)
        if device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        loop = loop_of(told, device)
        timed(loop, [loop.order.epoch(0)[0]] * 3, device)
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
        first = loop.order.epoch(0)[0]
        found[name] = {
            "estimated_gib": round(guess.total / 2**30, 3),
            "measured_gib": round(peak / 2**30, 3),
            "error": round(guess.total / peak - 1, 3) if peak else None,
            "shape": [first.rows.shape[1], first.width],
            "parts": {
                part: round(getattr(guess, part) / 2**30, 3)
                for part in ("weights", "gradients", "optimizer", "activations", "logits")
            },
        }
        del loop
        gc.collect()
    return found
