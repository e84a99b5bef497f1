"""The loss of each task, as a sum over supervised labels.

A sum, not a mean: the caller divides by the labels of the whole step, so that the gradient is the same however the
step is cut into micro-batches and ranks. The logits of a causal model are made only where a label is learned: at
8 × 1,024 tokens and 128,256 words all of them would take 4 GiB in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pipeline.shards.arrow import IGNORE
from pipeline.train.pixels import Normalization

PLAIN_HEADS = frozenset({"llama", "mistral", "qwen2", "qwen3", "phi3", "olmo2", "smollm3"})
"""Causal models whose logits are ``lm_head(hidden state)`` and nothing more (no scaling, no soft cap)."""


class TaskLoss(nn.Module):
    """A model with its loss: ``forward(tensors) -> sum of cross entropies``, float32 scalar.

    Args:
        model: a transformers (or peft) model.
        task: of the recipe.
        normalization: how page pixels are normalized, on the device.
        dtype: that pixels are given in.
    """

    def __init__(
        self, model: Any, task: str, normalization: Normalization | None, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.model, self.task = model, task
        self.normalization, self.dtype = normalization, dtype

    def forward(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        inputs = {
            name: tensor
            for name, tensor in tensors.items()
            if name not in ("labels", "targets", "target_ids")
        }
        if self.normalization is not None and self.normalization.name in inputs:
            name = self.normalization.name
            inputs[name] = self.normalization(inputs[name], self.dtype)
        if self.task == "causal_lm":
            return self._causal(inputs, tensors)
        logits = self.model(**inputs).logits.float()
        labels = tensors["labels"]
        return F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=IGNORE, reduction="sum"
        )

    def _causal(self, inputs: dict[str, torch.Tensor], tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        base = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        targets, ids = tensors["targets"], tensors["target_ids"]
        if getattr(base.config, "model_type", "") in PLAIN_HEADS:
            hidden = base.model(**inputs, use_cache=False).last_hidden_state
            logits = base.lm_head(hidden.reshape(-1, hidden.shape[-1])[targets])
        else:
            whole = self.model(**inputs, use_cache=False).logits
            logits = whole.reshape(-1, whole.shape[-1])[targets]
        return F.cross_entropy(logits.float(), ids, reduction="sum")


def next_tokens(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where a causal model learns: places of the hidden states in the flattened batch, and the tokens they predict.

    Args:
        labels: int64 [samples, width], on the CPU.

    Returns:
        ``targets`` and ``target_ids``, int64 [supervised labels].
    """
    learned = torch.zeros_like(labels, dtype=torch.bool)
    learned[:, :-1] = labels[:, 1:] != IGNORE
    targets = learned.view(-1).nonzero().view(-1)
    return targets, labels.reshape(-1)[targets + 1] if len(targets) else labels.new_empty(0)
