"""Ids of the words of many pages: each distinct word is tokenized once, and remembered as long as there is room."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.arrays import within
from pipeline.batch import Int64s
from pipeline.models.tokenizer import Tokenizer

Int32s = npt.NDArray[np.int32]

MOST_WORDS = 400_000
MOST_TOKENS = 2_000_000
"""Bounds of the memory: a few dozen MB of words and ids. Which words are remembered changes no id."""


@dataclass(slots=True)
class WordIds:
    """Word by word tokenization with a bounded memory.

    Words are independent of each other in a pre-tokenized text, so a page's ids are those of its words end to end.
    """

    tokenizer: Tokenizer
    most_words: int = MOST_WORDS
    most_tokens: int = MOST_TOKENS
    _slots: dict[str, int] = field(init=False, default_factory=dict)
    _ids: Int32s = field(init=False, default_factory=lambda: np.empty(0, np.int32))
    _lengths: Int64s = field(init=False, default_factory=lambda: np.empty(0, np.int64))

    def encode(self, words: pl.Series) -> tuple[Int32s, Int64s]:
        """Ids of all words end to end, int32; and the count of each word's, int64 [words]. No nulls."""
        if not len(words):
            return np.empty(0, np.int32), np.empty(0, np.int64)
        coded = words.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode()
        slots = self._slots_of(coded.dictionary.to_pylist())[coded.indices.to_numpy()]
        lengths = self._lengths[slots]
        starts = (np.cumsum(self._lengths) - self._lengths)[slots]
        return self._ids[np.repeat(starts, lengths) + within(lengths)], lengths

    def _slots_of(self, distinct: list[str]) -> Int64s:
        """Where each of these words is remembered, after those not known yet are tokenized."""
        if len(self._slots) > self.most_words or len(self._ids) > self.most_tokens:
            self._slots, self._ids, self._lengths = {}, self._ids[:0], self._lengths[:0]
        known = self._slots
        if unknown := [word for word in distinct if word not in known]:
            ids, lengths = self.tokenizer.encode_words(unknown)
            known.update(zip(unknown, range(len(known), len(known) + len(unknown)), strict=True))
            self._ids = np.concatenate([self._ids, ids])
            self._lengths = np.concatenate([self._lengths, lengths])
        return np.fromiter(map(known.__getitem__, distinct), np.int64, len(distinct))
