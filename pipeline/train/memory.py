"""How much of a card a job takes: weights, gradients, optimizer, activations, logits.

Parameters are counted on a model made without storage. Activations are summed over what each layer keeps for its
backward pass; see docs/training.md for the error against measured peaks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pipeline.train.batches import Budget
from pipeline.train.facts import Certified
from pipeline.train.recipe import Recipe

CONTEXT = 600 << 20
"""What CUDA itself takes of a card, beside torch's allocator."""
SAFE = 0.92
"""Share of a card's memory that is planned with: the allocator's caches fragment."""


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


def parameters(recipe: Recipe, facts: Certified) -> Parameters:
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
    return Parameters(total, linear, trained, weight_bytes, trained_bytes, able)


def estimate(
    recipe: Recipe, counted: Parameters, config: dict[str, Any], budget: Budget, length: int
) -> Estimate:
    """Bytes at the peak of a step.

    Args:
        recipe: precision, adapters, checkpointing.
        counted: of ``parameters``.
        config: of the model, as plain values.
        budget: size of micro-batches.
        length: tokens of the longest sample.
    """
    width = budget.width(length)
    samples = budget.size(width)
    tokens = samples * (width + budget.overhead)
    mixed = recipe.precision == "bf16" and recipe.model.weights == "float32"
    # Autocast keeps a bfloat16 copy of each float32 matrix until the backward pass is through.
    weights = counted.weight_bytes + (2 * counted.linear if mixed else 0)
    per_layer = _layer(config, recipe, tokens, samples, width + budget.overhead)
    layers = int(config.get("num_hidden_layers", 12))
    hidden = int(config.get("hidden_size", 768))
    if recipe.checkpointing:
        kept = layers * tokens * hidden * _width(recipe)
        activations = kept + per_layer
    else:
        activations = layers * per_layer + _shared(config, samples, width + budget.overhead)
    rows = samples * width
    vocabulary = (
        int(config.get("vocab_size", 0)) if recipe.task == "causal_lm" else len(config.get("id2label") or ())
    )
    # Logits in the computed type, in float32, their exponentials and their gradient.
    logits = rows * vocabulary * (_width(recipe) + 4 + 4 + 4)
    return Estimate(weights, counted.trained_bytes, 2 * counted.trained_bytes, activations, logits)


def largest(
    recipe: Recipe, counted: Parameters, config: dict[str, Any], budget: Budget, length: int, card: int
) -> int:
    """Most padded tokens of a micro-batch that a card holds; 0 where not even one sample fits."""
    one = budget.width(length) + budget.overhead
    low, high = 0, 1
    while high < 1 << 16 and _fits(recipe, counted, config, budget, length, high * one, card):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        fits = _fits(recipe, counted, config, budget, length, middle * one, card)
        low, high = (middle, high) if fits else (low, middle)
    return low * one


def _fits(
    recipe: Recipe,
    counted: Parameters,
    config: dict[str, Any],
    budget: Budget,
    length: int,
    tokens: int,
    card: int,
) -> bool:
    larger = replace(budget, tokens=tokens, samples=1 << 20)
    return estimate(recipe, counted, config, larger, length).fits(card)


def _width(recipe: Recipe) -> int:
    return 2 if recipe.precision == "bf16" else 4


def _layer(config: dict[str, Any], recipe: Recipe, tokens: int, samples: int, length: int) -> int:
    """Bytes that one layer keeps for its backward pass.

    An encoder layer keeps, a token: the input of its projections (h), queries, keys, values (3h), the attention's
    output twice (2h), the inputs of two norms in float32 (2 × 4h bytes), the input of the feed-forward part (h), its
    two inner activations (2i) and two dropout masks (2h bytes). A decoder layer keeps its gate as a third inner
    activation and two more norm outputs, and with adapters a dropped-out input of each.
    """
    hidden, wide, size = int(config["hidden_size"]), int(config["intermediate_size"]), _width(recipe)
    if recipe.task == "causal_lm":
        share = (
            int(config.get("num_key_value_heads") or config["num_attention_heads"])
            / config["num_attention_heads"]
        )
        a_token = size * hidden * (4 + 2 * share) + 4 * 4 * hidden + size * 2 * hidden + size * 4 * wide
        if recipe.lora is not None and recipe.lora.dropout:
            a_token += (size + 1) * (5 * hidden + 2 * wide)
        return int(tokens * a_token)
    a_token = size * 7 * hidden + 8 * hidden + size * 2 * wide + 2 * hidden
    heads = int(config["num_attention_heads"])
    scores = samples * heads * length * length * size if config.get("has_relative_attention_bias") else 0
    return int(tokens * a_token + scores)


def _shared(config: dict[str, Any], samples: int, length: int) -> int:
    """The relative position bias that all layers of LayoutLMv3 share, in float32."""
    if not config.get("has_relative_attention_bias"):
        return 0
    return samples * int(config["num_attention_heads"]) * length * length * 4
