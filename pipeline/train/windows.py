"""Predictions on windows put together again: one value a word of each page, or one a token.

numpy only, so that a training or serving node can use it. The shard's columns ``sample_id``, ``window`` and
``word_ids`` say which page, which part of it, and which word each token belongs to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Key = TypeVar("Key", bound=Hashable)
Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one page, in order.

    Attributes:
        words: int64 [n], place of each word in the record as read; dropped words are missing.
        values: [n, …], the value of each word's first token.
    """

    words: npt.NDArray[np.int64]
    values: Values


def page_of(sample_id: str) -> str:
    """The record a window was cut from: ``source#row`` of ``source#row#w3``."""
    return sample_id.rpartition("#w")[0] or sample_id


def stitch(
    pages: Iterable[Key], windows: Iterable[int], word_ids: Iterable[Sequence[int]], values: Iterable[Any]
) -> dict[Key, Words]:
    """One value a word, from the window that holds the word first.

    That is the window whose label the word was trained with, and the token that carried it: in later windows the
    word's labels are -100.

    Args:
        pages: the page of each window (``page_of`` of its sample id).
        windows: its number.
        word_ids: the word of each of its tokens, -1 for special tokens.
        values: predictions, one a token: ids [tokens] or scores [tokens, labels]. Pads at the end are ignored.

    Returns:
        The words of each page, pages in the order they first came.
    """
    parts: dict[Key, list[tuple[int, npt.NDArray[np.int64], Values]]] = {}
    for page, number, ids, value in zip(pages, windows, word_ids, values, strict=True):
        tokens = np.asarray(ids, np.int64)
        parts.setdefault(page, []).append((int(number), tokens, np.asarray(value)[: len(tokens)]))
    return {page: _page(cuts) for page, cuts in parts.items()}


def _page(cuts: list[tuple[int, npt.NDArray[np.int64], Values]]) -> Words:
    cuts.sort(key=lambda cut: cut[0])
    words = np.concatenate([ids for _, ids, _ in cuts])
    values = np.concatenate([value for _, _, value in cuts])
    if len(words) != len(values):
        raise ValueError(f"{len(values)} predictions for {len(words)} tokens")
    real = np.flatnonzero(words >= 0)
    found, first = np.unique(words[real], return_index=True)
    return Words(found, values[real[first]])


def stitch_tokens(values: Sequence[Values], stride: int) -> Values:
    """One value a token of a page: its windows, in order, each without its special tokens and without what the
    window before has already.

    Args:
        values: [tokens, …] of each window of one page, special tokens at both ends, no pads.
        stride: tokens shared by two neighbouring windows.
    """
    inner = [np.asarray(value)[1:-1] for value in values]
    return np.concatenate([inner[0], *(value[stride:] for value in inner[1:])])
