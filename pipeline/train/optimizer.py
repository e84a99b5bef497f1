"""AdamW over what is trained, and the learning rate by step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from pipeline.train.recipe import Optimizer


def adamw(parameters: Iterable[torch.nn.Parameter], told: Optimizer, *, fused: bool) -> torch.optim.AdamW:
    """AdamW; vectors (biases, norms) are not decayed."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": told.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=told.rate, betas=told.betas, eps=told.epsilon, fused=fused,
    )  # fmt: skip


def rate(told: Optimizer, step: int, steps: int) -> float:
    """Learning rate of a step, counted from 0: it rises over the warm-up, then follows the schedule to 0."""
    warm = round(told.warmup * steps)
    if step < warm:
        return told.rate * (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    if told.schedule == "linear":
        return told.rate * (1 - done)
    if told.schedule == "cosine":
        return told.rate * 0.5 * (1 + math.cos(math.pi * done))
    return told.rate
