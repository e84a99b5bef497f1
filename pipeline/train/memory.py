"""Estimate the GPU memory of a job: weights, gradients, optimizer, activations, logits.

The parameters are counted on a model without storage. The activations of a layer are computed from numbers measured on
an NVIDIA H200 with torch 2.11; docs/training.md states the error for other shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.train.batches import Budget
from pipeline.train.recipe import Recipe
from pipeline.train.rows import CertifiedSet

CONTEXT = 600 << 20
"""Bytes that CUDA itself needs on a GPU, apart from torch's allocator."""
SAFE = 0.92
"""Usable share of a GPU's memory: the caches of the allocator fragment."""
ENCODER = {
    (True, "bf16"): (32.5, 3.35),
    (True, "fp32"): (44.4, 6.2),
    (False, "bf16"): (74.0, 7.1),
    (False, "fp32"): (41.8, 15.8),
}
"""Stored activations of an encoder layer, by fused attention and precision: bytes per token and hidden unit, and bytes
per attention score (for models with relative position biases or without fused attention)."""
DECODER_HIDDEN, DECODER_INNER = 34.0, 8.0
"""Stored activations of a decoder layer with adapters in bfloat16: bytes per token and hidden unit, and per token and
inner unit."""
BACKWARD = 1.72
"""Peak of the backward pass of a layer, as a multiple of its stored activations."""
LOGIT = 12
"""Bytes per logit at the peak of the loss: as computed, in float32, and its gradient."""
UNEVEN = 1.25
"""Largest share of supervised tokens in a batch, as a multiple of the average."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a model.

    Attributes:
        total, linear, trained: number of all parameters, of those in matrices of layers, and of the trained ones.
        weight_bytes, trained_bytes: size of all weights and of the trained ones.
        checkpointing: whether the model can recompute its activations.
        fused: whether it uses fused attention.
    """

    total: int
    linear: int
    trained: int
    weight_bytes: int
    trained_bytes: int
    checkpointing: bool
    fused: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """The memory at the peak of a step, by part, in bytes."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """The sum of all parts, without ``CONTEXT``."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    def fits(self, card: int) -> bool:
        """Whether a GPU with ``card`` bytes has enough memory, with room for fragmentation."""
        return self.total + CONTEXT <= SAFE * card


def parameters(recipe: Recipe, certified: CertifiedSet) -> Parameters:
    """Count the parameters of the model of a recipe without making its weights."""
    from pipeline.train.model import config_of, empty_model

    model = empty_model(recipe, config_of(recipe, certified))
    total = linear = trained = weight_bytes = trained_bytes = 0
    for name, parameter in model.named_parameters():
        count, size = parameter.numel(), parameter.element_size()
        matrix = parameter.ndim == 2 and "embed" not in name
        if recipe.model.bits == 4 and matrix and not parameter.requires_grad and "lm_head" not in name:
            weight_bytes += int(count * (0.5 + 1 / 64))  # NF4 with doubly quantized scales
        else:
            weight_bytes += count * size
        total += count
        linear += count if matrix else 0
        if parameter.requires_grad:
            trained += count
            trained_bytes += count * size
    able = any(getattr(part, "supports_gradient_checkpointing", False) for part in model.modules())
    fused = recipe.model.attention != "eager" and any(
        getattr(part, "_supports_sdpa", False) for part in model.modules()
    )
    return Parameters(total, linear, trained, weight_bytes, trained_bytes, able, fused)


def supervised_share(certified: CertifiedSet) -> float:
    """Share of supervised tokens in the first 2,000 rows, 0 to 1."""
    from pipeline.shards.schemas import IGNORE
    from pipeline.train.rows import CertifiedRows

    table = CertifiedRows(certified).table
    if "labels" not in table.column_names or certified.kind == "table":
        return 1.0
    first = table["labels"].slice(0, 2_000).combine_chunks()
    labels = first.flatten().to_numpy(zero_copy_only=False)
    return float(np.mean(labels != IGNORE)) if len(labels) else 1.0


def estimate(
    recipe: Recipe,
    counted: Parameters,
    config: Mapping[str, Any],
    budget: Budget,
    length: int,
    share: float = 1.0,
) -> Estimate:
    """Estimate the memory at the peak of a step.

    Args:
        recipe: precision, adapters, checkpointing.
        counted: result of ``parameters``.
        config: of the model, as plain values.
        budget: size of micro-batches.
        length: number of tokens of the longest sample.
        share: share of supervised tokens (``supervised_share``).
    """
    width = budget.width(length)
    samples = budget.size(width)
    positions = width + budget.overhead
    tokens = samples * positions
    mixed = recipe.precision == "bf16" and recipe.model.weights == "float32"
    # Autocast stores a bfloat16 copy of each float32 matrix until the end of the backward pass.
    weights = counted.weight_bytes + (2 * counted.linear if mixed else 0)
    causal = recipe.task == "causal_lm"
    layer = (
        _decoder(config, recipe, tokens) if causal else _encoder(config, recipe, counted, samples, positions)
    )
    layers, size = int(config.get("num_hidden_layers", 12)), 2 if recipe.precision == "bf16" else 4
    kept = layers * (tokens * int(config["hidden_size"]) * size if recipe.checkpointing else layer)
    rows = samples * width * min(1.0, share * UNEVEN)
    vocabulary = int(config.get("vocab_size", 0)) if causal else len(config.get("id2label") or ())
    logits = int(rows * vocabulary * LOGIT)
    # The peak of the loss and that of a layer's backward pass come at different times.
    pass_ = int(layer * (BACKWARD if recipe.checkpointing else BACKWARD - 1)) if causal else 0
    return Estimate(
        weights, counted.trained_bytes, 2 * counted.trained_bytes, kept + max(0, pass_ - logits), logits
    )


def largest(
    recipe: Recipe,
    counted: Parameters,
    config: Mapping[str, Any],
    budget: Budget,
    length: int,
    card: int,
    share: float = 1.0,
) -> int:
    """Largest number of padded tokens of a micro-batch on a GPU with ``card`` bytes; 0 where no sample fits."""
    one = budget.width(length) + budget.overhead

    def fits(samples: int) -> bool:
        larger = replace(budget, tokens=samples * one, samples=1 << 20)
        return estimate(recipe, counted, config, larger, length, share).fits(card)

    low, high = 0, 1
    while high < 1 << 16 and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * one


def _encoder(
    config: Mapping[str, Any], recipe: Recipe, counted: Parameters, samples: int, length: int
) -> int:
    """Bytes that one encoder layer stores for its backward pass."""
    per_unit, per_score = ENCODER[counted.fused, recipe.precision]
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    biased = config.get("model_type") in ("layoutlmv3", "layoutlmv2") or not counted.fused
    scores = samples * heads * length * length * per_score if biased else 0
    return int(samples * length * hidden * per_unit + scores)


def _decoder(config: Mapping[str, Any], recipe: Recipe, tokens: int) -> int:
    """Bytes that one decoder layer stores for its backward pass."""
    hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    wide = 1 if recipe.precision == "bf16" else 2
    return int(tokens * wide * (DECODER_HIDDEN * hidden + DECODER_INNER * inner))
