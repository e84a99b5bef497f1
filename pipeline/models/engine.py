"""Engines that turn texts into flat ids. The reference is always there; a faster one must first equal it.

Both encode text as plain text: no special token is added, and text that spells a special token stays text.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Engine(Protocol):
    """A tokenizing engine."""

    name: str

    def encode(self, texts: Sequence[str]) -> tuple[Int32s, Int64s]:
        """Ids of all texts, one after the other, int32; and the count of each text, int64 [len(texts)]."""
        ...


class Reference:
    """The ``tokenizers`` library, over a tokenizer without post-processor."""

    name = "tokenizers"

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> tuple[Int32s, Int64s]:
        """Ids of all texts, plain."""
        self._tokenizer.encode_special_tokens = True
        return _flat(self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False))

    def offsets(self, texts: Sequence[str], *, marked: bool = False) -> tuple[Int32s, Int64s, Int64s, Int64s]:
        """Ids and lengths as ``encode``; and the first and one past the last character of each token.

        Args:
            marked: whether text that spells a special token becomes one, as in rendered text.
        """
        self._tokenizer.encode_special_tokens = not marked
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ids, lengths = _flat(found)
        pairs = np.array([pair for e in found for pair in e.offsets], np.int64).reshape(-1, 2)
        return ids, lengths, pairs[:, 0].copy(), pairs[:, 1].copy()


def _flat(encodings: list[Any]) -> tuple[Int32s, Int64s]:
    rows = [e.ids for e in encodings]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    ids = np.fromiter(itertools.chain.from_iterable(rows), np.int32, int(lengths.sum()))
    return ids, lengths
