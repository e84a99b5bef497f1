"""From samples to tensors, and the loss of each task as a sum over supervised labels.

The loss is a sum, not a mean: the caller divides by the number of labels of the whole step, so that the gradient does
not depend on the division of the step into micro-batches and ranks. A causal model computes logits only for supervised
labels: at 8 × 1,024 tokens and a vocabulary of 128,256, all logits would take 4 GiB in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import nn

from pipeline.errors import RefusedError
from pipeline.shards.schemas import IGNORE
from pipeline.train.batches import FILLER
from pipeline.train.padding import Normalization, Pages, as_array, normalization, padded, pads_of
from pipeline.train.rows import CertifiedRows, CertifiedSet, Int64s, RaggedColumn

PLAIN_HEADS = frozenset({"llama", "mistral", "qwen2", "qwen3", "phi3", "olmo2", "smollm3"})
"""Causal models whose logits are exactly ``lm_head(hidden state)``, without scaling or soft cap."""


class TaskLoss(nn.Module):
    """A model with its loss: ``forward(tensors)`` gives the sum of cross entropies, a float32 scalar.

    Args:
        model: a transformers or peft model.
        task: of the recipe.
        normalization: of the page pixels, done on the device; None without pages.
        dtype: of the normalized pixels.
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
            logits = self.model(**inputs, use_cache=False).logits
            logits = logits.reshape(-1, logits.shape[-1])[targets]
        return F.cross_entropy(logits.float(), ids, reduction="sum")


def next_tokens(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The supervised predictions of a causal model.

    Args:
        labels: int64 [samples, width], on the CPU.

    Returns:
        ``targets``, indices of the hidden states in the flattened batch, and ``target_ids``, the tokens that they
        predict; both int64 [supervised labels].
    """
    learned = torch.zeros_like(labels, dtype=torch.bool)
    learned[:, :-1] = labels[:, 1:] != IGNORE
    targets = learned.view(-1).nonzero().view(-1)
    return targets, labels.reshape(-1)[targets + 1] if len(targets) else labels.new_empty(0)


@dataclass(frozen=True, slots=True)
class Minibatch:
    """Tensors of one micro-batch on the CPU.

    Attributes:
        tensors: the arguments of the model by name, padded, with the labels; pixels as uint8.
        rows: int64 [samples], index of each sample, ``FILLER`` for a repeated one.
    """

    tensors: dict[str, torch.Tensor]
    rows: Int64s

    def to(self, device: torch.device) -> Minibatch:
        """The tensors on a device. From page-locked memory, the copy runs during the computation."""
        moved = {name: tensor.to(device, non_blocking=True) for name, tensor in self.tensors.items()}
        return Minibatch(moved, self.rows)


class RowCollator:
    """Makes micro-batches from memory-mapped rows: no Python object per token, and one copy, into the batch.

    Args:
        rows: the data set.
        causal: whether the model predicts the next token. Then, if the mask of every sample is all ones, no attention
            mask is made: pads are on the right, where causal attention never looks, and fast attention kernels take no
            mask.
        pin: whether tensors are in page-locked memory.
    """

    def __init__(self, rows: CertifiedRows, *, causal: bool, pin: bool = False) -> None:
        self.rows, self.causal, self.pin = rows, causal, pin
        certified = rows.certified
        no_mask = causal and certified.number("attention_mask[]", "minimum") == 1
        self._pads = [pad for pad in pads_of(certified) if not (no_mask and pad.column == "attention_mask")]
        self._columns = {pad.column: RaggedColumn(rows.table[pad.column]) for pad in self._pads}
        self.normalization = normalization(certified)
        self._pages = Pages(certified) if self.normalization else None
        self._places = self._pages.places(rows.table["page_id"]) if self._pages else np.empty(0, np.int64)
        self._classes = _classes(rows)
        self.lengths = self._columns["input_ids"].lengths

    def batch(self, rows: Int64s, width: int, stand_in: int | None = None) -> Minibatch:
        """The tensors of some samples.

        Args:
            rows: int64 [samples]; ``FILLER`` becomes a copy of ``stand_in`` with every label ignored.
            width: padded length, in tokens.
            stand_in: index of a sample; default: the first of ``rows`` that is not ``FILLER``.
        """
        filler = rows == FILLER
        first = rows[~filler][:1] if stand_in is None else [stand_in]
        rows_ = np.where(filler, first, rows) if filler.any() else rows
        tensors = {}
        for pad in self._pads:
            tensors[pad.column] = padded(self._columns[pad.column].rows(rows_), pad, width, pin=self.pin)
        if self._pages is not None and self.normalization is not None:
            side = self.normalization.side
            tensors[self.normalization.name] = self._pages.batch(self._places[rows_], side, pin=self.pin)
        if self._classes is not None:
            tensors["labels"] = torch.from_numpy(self._classes[rows_])
        if filler.any() and "labels" in tensors:
            tensors["labels"][torch.from_numpy(filler)] = IGNORE
        if "position_ids" in tensors and "labels" in tensors:
            # The first token of a packed conversation does not continue the previous one.
            tensors["labels"][tensors["position_ids"] == 0] = IGNORE
        if self.causal and "labels" in tensors:
            targets, ids = next_tokens(tensors["labels"])
            tensors["targets"], tensors["target_ids"] = (
                (targets.pin_memory(), ids.pin_memory()) if self.pin else (targets, ids)
            )
        return Minibatch(tensors, rows)

    def supervised(self, rows: Int64s) -> int:
        """Number of labels of some samples that the loss counts, without fillers."""
        rows = rows[rows != FILLER]
        if self._classes is not None:
            return len(rows)
        first = 1 if self.causal else 0
        count = sum(int((labels[first:] != IGNORE).sum()) for labels in self._columns["labels"].rows(rows))
        if "position_ids" in self._columns:
            starts = zip(
                self._columns["position_ids"].rows(rows), self._columns["labels"].rows(rows), strict=True
            )
            count -= sum(int(((places[1:] == 0) & (labels[1:] != IGNORE)).sum()) for places, labels in starts)
        return count

    def tokens(self, rows: Int64s) -> int:
        """Number of tokens of some samples, without pads and fillers."""
        return int(self.lengths[rows[rows != FILLER]].sum())


class Collator:
    """The ``data_collator`` of a Transformers ``Trainer``, for rows of a certified data set in any format.

        Trainer(..., train_dataset=data, data_collator=Collator(data),
                args=TrainingArguments(..., remove_unused_columns=False))

    It pads each batch to its longest sample, and finds page pixels by ``page_id`` and normalizes them. For a job whose
    loader is too slow, use ``python -m pipeline train``, which runs no Python per row.

    Args:
        dataset: the result of ``load_certified``, or a ``CertifiedSet``.
        multiple: each width is a multiple of it, within the positions of the model.

    Raises:
        RefusedError: the trainer removed columns, or the data set is not certified.
    """

    def __init__(self, dataset: Any, multiple: int = 8) -> None:
        certified: CertifiedSet = dataset if isinstance(dataset, CertifiedSet) else _certified_of(dataset)
        self.certified, self.multiple = certified, multiple
        self._pads = pads_of(certified)
        self._normalization = normalization(certified)
        self._pages = Pages(certified) if self._normalization else None
        self._longest = certified.number("input_ids", "longest") or 0

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        lost = [pad.column for pad in self._pads if pad.column not in features[0]]
        if self._pages is not None and "page_id" not in features[0]:
            lost.append("page_id")
        if lost:
            raise RefusedError(
                "columns were removed before the batch was made",
                found=", ".join(lost) + " missing",
                remedy="give the trainer `remove_unused_columns=False`",
            )
        longest = max(len(feature["input_ids"]) for feature in features)
        width = min(-(-longest // self.multiple) * self.multiple, max(self._longest, longest))
        out = {
            pad.column: padded([as_array(feature[pad.column]) for feature in features], pad, width)
            for pad in self._pads
        }
        if self._pages is not None and self._normalization is not None:
            import pyarrow as pa

            places = self._pages.places(pa.array([feature["page_id"] for feature in features], pa.string()))
            side = self._normalization.side
            out[self._normalization.name] = self._normalization(self._pages.batch(places, side))
        if "labels" not in out and "labels" in features[0]:
            out["labels"] = torch.tensor([int(feature["labels"]) for feature in features])
        return out


def _certified_of(dataset: Any) -> CertifiedSet:
    from pipeline.train.gate import assert_certified

    return assert_certified(dataset)


def _classes(rows: CertifiedRows) -> Int64s | None:
    """The labels of a table, one per sample, int64 [rows]; None for a data set with a label per token or none."""
    if "labels" not in rows.column_names or not pa.types.is_integer(rows.table.schema.field("labels").type):
        return None
    return rows.table["labels"].to_numpy().astype(np.int64)  # type: ignore[no-any-return]
