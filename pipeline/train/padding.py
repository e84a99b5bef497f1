"""Padding of the columns of samples, and copying and normalizing of page images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from pipeline.shards.schemas import IGNORE
from pipeline.train.rows import CertifiedSet, Int64s, Values, mapped


@dataclass(frozen=True, slots=True)
class Pad:
    """The padding of one column.

    Attributes:
        column: of the shard.
        value: the value of pads: a number, or the four numbers of a box.
        dtype: of the tensor.
    """

    column: str
    value: int | tuple[float, ...]
    dtype: torch.dtype = torch.int64


def pads_of(certified: CertifiedSet) -> tuple[Pad, ...]:
    """The padded columns of a data set, in the order of the shard.

    Token ids get the pad id of the certificate; without one 0, which no loss and no attention uses. Labels get -100 by
    their position, never by a comparison with the pad id: where pad = eos, the model still learns the end of a turn.
    """
    known = certified.limits
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
    lists = {name for name, kind, _ in certified.fields if kind.startswith("list<")}
    return tuple(rules[name] for name in certified.columns if name in rules and name in lists)


def padded(values: Sequence[Values], pad: Pad, width: int, *, pin: bool = False) -> torch.Tensor:
    """Samples as one tensor, padded on the right.

    Args:
        values: one array per sample, [length] or [length, 4].
        pad: the padding of the column.
        width: padded length; no sample is longer.
        pin: whether the tensor is in page-locked memory, from which a GPU copies without the CPU.

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
    """The values of a sample as an array, from any format of a data set."""
    if isinstance(value, torch.Tensor):
        return value.numpy()
    return np.asarray(value)


WHITE = 255
MISSING = -1


@dataclass(frozen=True, slots=True)
class Normalization:
    """``(pixel · scale − mean) / std`` per channel, as in the image processor of the family.

    Attributes:
        name: argument of the model for the pixels.
        side: height and width in pixels.
        scale, mean, std: of the formula; mean and std have one number per channel.
    """

    name: str
    side: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normalize pixels, uint8 [n, 3, side, side], on their device."""
        mean = torch.tensor(self.mean, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)
        std = torch.tensor(self.std, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)
        return pixels.to(torch.float32).mul_(self.scale).sub_(mean).div_(std).to(dtype)


def normalization(certified: CertifiedSet) -> Normalization | None:
    """The normalization for the family of a data set; None for a data set without pages."""
    image = certified.limits.get("image")
    if image is None or not certified.pages or "page_id" not in certified.columns:
        return None
    return Normalization(
        name="image" if certified.limits["family"] in ("layoutlmv2", "layoutxlm") else "pixel_values",
        side=int(image["side"]),
        scale=float(image["scale"]),
        mean=tuple(float(number) for number in image["mean"]),
        std=tuple(float(number) for number in image["std"]),
    )


class Pages:
    """The page images of a data set, memory-mapped."""

    def __init__(self, certified: CertifiedSet) -> None:
        table = mapped(certified.clean, certified.pages_name, certified.pages)
        self._ids = table["page_id"].combine_chunks()
        self._chunks = [_matrix(chunk) for chunk in table["pixels"].chunks]
        sizes = np.array([len(chunk) for chunk in self._chunks], np.int64)
        self._ends = np.cumsum(sizes)
        self._firsts = self._ends - sizes

    def places(self, page_ids: pa.ChunkedArray) -> Int64s:
        """Row of each page, int64 [n]; ``MISSING`` for a null."""
        import pyarrow.compute as pc

        found = pc.fill_null(pc.index_in(page_ids, value_set=self._ids), MISSING)
        return found.to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    def batch(self, places: Int64s, side: int, *, pin: bool = False) -> torch.Tensor:
        """The pixels of some pages, uint8 [n, 3, side, side]; a missing page is white."""
        out = torch.empty((len(places), 3 * side * side), dtype=torch.uint8, pin_memory=pin)
        flat = out.numpy()
        chunks = np.searchsorted(self._ends, places, side="right")
        for row, place, chunk in zip(flat, places.tolist(), chunks.tolist(), strict=True):
            row[:] = WHITE if place == MISSING else self._chunks[chunk][place - self._firsts[chunk]]
        return out.view(len(places), 3, side, side)


def _matrix(chunk: pa.FixedSizeListArray) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    size = chunk.type.list_size
    values = chunk.values.slice(chunk.offset * size, len(chunk) * size).to_numpy(zero_copy_only=True)
    return values.reshape(-1, size)  # type: ignore[no-any-return]
