"""How much of a card a job takes: weights, gradients, optimizer, activations, logits.

Parameters are counted on a model made without storage. Activations are counted by layer with numbers measured on a
card (NVIDIA H200, torch 2.11); docs/training.md states the error against peaks of other shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.train.batches import Budget
from pipeline.train.recipe import Recipe
from pipeline.train.rows import CertifiedSet

CONTEXT = 600 << 20
"""What CUDA itself takes of a card, beside torch's allocator."""
SAFE = 0.92
"""Share of a card's memory that is planned with: the allocator's caches fragment."""
ENCODER = {
    (True, "bf16"): (32.5, 3.35),
    (True, "fp32"): (44.4, 6.2),
    (False, "bf16"): (74.0, 7.1),
    (False, "fp32"): (41.8, 15.8),
}
"""What an encoder layer keeps, by fused attention and precision: bytes a token and hidden unit, and bytes an
attention score (where the model has relative position biases, or no fused attention)."""
DECODER_HIDDEN, DECODER_INNER = 34.0, 8.0
"""What a decoder layer with adapters keeps in bfloat16: bytes a token and hidden unit, and an inner unit."""
BACKWARD = 1.72
"""Peak of one layer's backward pass, as a multiple of what the layer keeps."""
LOGIT = 12
"""Bytes a logit at the peak of the loss: as computed, in float32, and its gradient."""
UNEVEN = 1.25
"""How much more than the average a batch may have of supervised tokens."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of parameters: all, those in matrices of layers, those trained; bytes of each kind; and whether the
    model can recompute its activations."""

    total: int
    linear: int
    trained: int
    weight_bytes: int
    trained_bytes: int
    checkpointing: bool
    fused: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes of each part at the peak of a step."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int

    @property
    def total(self) -> int:
        """All parts, without CUDA's own."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    def fits(self, card: int) -> bool:
        """Whether a card of so many bytes holds it with room for fragmentation."""
        return self.total + CONTEXT <= SAFE * card


def parameters(recipe: Recipe, facts: CertifiedSet) -> Parameters:
    """Count the parameters of a recipe's model without making its weights."""
    from pipeline.train.model import config_of, skeleton

    model = skeleton(recipe, config_of(recipe, facts))
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


def supervised_share(facts: CertifiedSet) -> float:
    """Share of the tokens whose label is learned, in the first rows of each shard."""
    import numpy as np

    from pipeline.shards.schemas import IGNORE
    from pipeline.train.rows import CertifiedRows

    table = CertifiedRows(facts).table
    if "labels" not in table.column_names or facts.kind == "table":
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
    """Bytes at the peak of a step.

    Args:
        recipe: precision, adapters, checkpointing.
        counted: of ``parameters``.
        config: of the model, as plain values.
        budget: size of micro-batches.
        length: tokens of the longest sample.
        share: of the tokens that are supervised, see ``supervised_share``.
    """
    width = budget.width(length)
    samples = budget.size(width)
    whole = width + budget.overhead
    tokens = samples * whole
    mixed = recipe.precision == "bf16" and recipe.model.weights == "float32"
    # Autocast keeps a bfloat16 copy of each float32 matrix until the backward pass is through.
    weights = counted.weight_bytes + (2 * counted.linear if mixed else 0)
    causal = recipe.task == "causal_lm"
    layer = _decoder(config, recipe, tokens) if causal else _encoder(config, recipe, counted, samples, whole)
    layers, size = int(config.get("num_hidden_layers", 12)), 2 if recipe.precision == "bf16" else 4
    kept = layers * (tokens * int(config["hidden_size"]) * size if recipe.checkpointing else layer)
    rows = samples * width * min(1.0, share * UNEVEN)
    vocabulary = int(config.get("vocab_size", 0)) if causal else len(config.get("id2label") or ())
    logits = int(rows * vocabulary * LOGIT)
    # The loss and the backward pass of a layer do not peak together.
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
    """Most padded tokens of a micro-batch that a card of so many bytes holds; 0 where not even one sample fits."""
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
    """Bytes that one encoder layer keeps for its backward pass."""
    a_unit, a_score = ENCODER[counted.fused, recipe.precision]
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    biased = config.get("model_type") in ("layoutlmv3", "layoutlmv2") or not counted.fused
    scores = samples * heads * length * length * a_score if biased else 0
    return int(samples * length * hidden * a_unit + scores)


def _decoder(config: Mapping[str, Any], recipe: Recipe, tokens: int) -> int:
    """Bytes that one decoder layer keeps for its backward pass."""
    hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    wide = 1 if recipe.precision == "bf16" else 2
    return int(tokens * wide * (DECODER_HIDDEN * hidden + DECODER_INNER * inner))
