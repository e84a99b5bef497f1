"""Words of pages, each tokenized once: pages repeat their words, so that a bounded memory of them pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from pipeline.arrays import within
from pipeline.models.engine import Int32s, Int64s

CAPACITY = 200_000
"""Most words remembered; then the memory starts anew."""

Encode = Callable[[Sequence[str]], tuple[Int32s, Int64s]]


class WordMemory:
    """Ids of words seen before."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._forget()

    def _forget(self) -> None:
        self._places: dict[str, int] = {}
        self._ids = np.empty(0, np.int32)
        self._lengths = np.empty(0, np.int64)

    def encode(self, words: Sequence[str] | pa.Array) -> tuple[Int32s, Int64s]:
        """Ids of all words one after the other, and the count of each."""
        array = words if isinstance(words, pa.Array) else pa.array(words, pa.string())
        if not len(array):
            return np.empty(0, np.int32), np.empty(0, np.int64)
        coded = array.dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        places = self._places_of(distinct)[coded.indices.to_numpy(zero_copy_only=False)]
        starts = np.cumsum(self._lengths) - self._lengths
        lengths = self._lengths[places]
        return self._ids[np.repeat(starts[places], lengths) + within(lengths)], lengths

    def _places_of(self, distinct: list[str]) -> Int64s:
        """Place of each word in the memory; words not seen before are tokenized and kept."""
        if len(self._places) + len(distinct) > max(CAPACITY, len(distinct)):
            self._forget()
        fresh = [word for word in distinct if word not in self._places]
        if fresh:
            ids, lengths = self._encode(fresh)
            self._places |= {word: len(self._places) + i for i, word in enumerate(fresh)}
            self._ids = np.concatenate([self._ids, ids])
            self._lengths = np.concatenate([self._lengths, lengths])
        return np.fromiter((self._places[word] for word in distinct), np.int64, len(distinct))
