"""Page images: found by their page, copied as uint8, normalized where the model is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch

from pipeline.train.facts import Certified
from pipeline.train.ragged import Int64s
from pipeline.train.rows import mapped

WHITE = 255
MISSING = -1


@dataclass(frozen=True, slots=True)
class Normalization:
    """``(pixel · scale − mean) / std`` a channel, as the family's image processor does it.

    Attributes:
        name: argument of the model that takes the pixels.
        side: pixels a side.
        scale, mean, std: see above; mean and std one number a channel.
    """

    name: str
    side: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normalize uint8 [n, 3, side, side] on the device it lies on."""
        mean = torch.tensor(self.mean, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)
        std = torch.tensor(self.std, dtype=torch.float32, device=pixels.device).view(-1, 1, 1)
        return pixels.to(torch.float32).mul_(self.scale).sub_(mean).div_(std).to(dtype)


def normalization(facts: Certified) -> Normalization | None:
    """How the family of a data set takes pixels, None where there are none."""
    image = facts.limits.get("image")
    if image is None or not facts.pages or "page_id" not in facts.columns:
        return None
    return Normalization(
        name="image" if facts.limits["family"] in ("layoutlmv2", "layoutxlm") else "pixel_values",
        side=int(image["side"]),
        scale=float(image["scale"]),
        mean=tuple(float(number) for number in image["mean"]),
        std=tuple(float(number) for number in image["std"]),
    )


class Pages:
    """The page images of a data set, memory-mapped."""

    def __init__(self, facts: Certified) -> None:
        table = mapped(facts.clean, facts.pages_name, facts.pages)
        self._ids = table["page_id"].combine_chunks()
        self._chunks = [_matrix(chunk) for chunk in table["pixels"].chunks]
        sizes = np.array([len(chunk) for chunk in self._chunks], np.int64)
        self._ends = np.cumsum(sizes)
        self._firsts = self._ends - sizes

    def places(self, page_ids: pa.ChunkedArray) -> Int64s:
        """Row of each page, int64; ``MISSING`` for a null."""
        import pyarrow.compute as pc

        found = pc.fill_null(pc.index_in(page_ids, value_set=self._ids), MISSING)
        return found.to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    def batch(self, places: Int64s, side: int, *, pin: bool = False) -> torch.Tensor:
        """Pixels of some pages, uint8 [n, 3, side, side]; a missing page is white."""
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
