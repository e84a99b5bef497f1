"""How each column of a sample is padded for its model family, and to what type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pipeline.shards.arrow import IGNORE
from pipeline.train.facts import Certified
from pipeline.train.ragged import Values


@dataclass(frozen=True, slots=True)
class Pad:
    """Padding of one column.

    Attributes:
        column: of the shard.
        value: what stands on pads: a number, or the four of a box.
        dtype: of the tensor.
    """

    column: str
    value: int | tuple[float, ...]
    dtype: torch.dtype = torch.int64


def pads_of(facts: Certified) -> tuple[Pad, ...]:
    """The padded columns of a data set, in the order of the shard.

    Token ids get the pad id that the samples were judged with (where a tokenizer has none: 0, which no loss and no
    attention ever sees). Labels get -100 by their place, never by comparing ids with a pad token: where pad = eos,
    the end of a turn stays learned.
    """
    known = facts.limits
    pad_id = known.get("pad_id")
    box = tuple(float(number) for number in known.get("pad_box") or (0, 0, 0, 0))
    floats = bool(known.get("float_boxes"))
    rules = {
        "input_ids": Pad("input_ids", int(pad_id or 0)),
        "attention_mask": Pad("attention_mask", 0),
        "bbox": Pad("bbox", box, torch.float32 if floats else torch.int64),
        "labels": Pad("labels", IGNORE),
        "position_ids": Pad("position_ids", 0),
    }
    lists = {name for name, kind, _ in facts.fields if kind.startswith("list<")}
    return tuple(rules[name] for name in facts.columns if name in rules and name in lists)


def padded(values: Sequence[Values], pad: Pad, width: int, *, pin: bool = False) -> torch.Tensor:
    """Samples under each other, padded on the right.

    Args:
        values: one array a sample, [length] or [length, 4].
        pad: the column's rule.
        width: padded length; no sample is longer.
        pin: whether the tensor lies in page-locked memory, from where a card copies by itself.

    Returns:
        [samples, width] or [samples, width, 4].
    """
    shape: tuple[int, ...] = (len(values), width)
    if isinstance(pad.value, tuple):
        shape += (len(pad.value),)
    out = torch.empty(shape, dtype=pad.dtype, pin_memory=pin)
    flat: Any = out.numpy()
    for row, sample in zip(flat, values, strict=True):
        row[: len(sample)] = sample
        row[len(sample) :] = pad.value
    return out


def as_array(value: Any) -> Values:
    """A sample's values from whatever a data set's format gives."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    return np.asarray(value)
