"""Join the predictions on windows: one value per word of each page, or one per token.

It imports numpy only, for training and serving nodes. The columns ``sample_id``, ``window`` and ``word_ids`` of a shard
give the page, the number of the window, and the word of each token.
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
        words: int64 [n], index of each word in the record as read; dropped words are missing.
        values: [n, …], the value of the first token of each word.
    """

    words: npt.NDArray[np.int64]
    values: Values


def page_of(sample_id: str) -> str:
    """The record of a window: ``source#row`` of ``source#row#w3``."""
    return sample_id.rpartition("#w")[0] or sample_id


def stitch(
    pages: Iterable[Key], windows: Iterable[int], word_ids: Iterable[Sequence[int]], values: Iterable[Any]
) -> dict[Key, Words]:
    """One value per word, from the first window that holds the word.

    The model learned the label of the word from this window; in later windows its labels are -100.

    Args:
        pages: the page of each window (``page_of`` of its sample id).
        windows: the number of each window.
        word_ids: the word of each token of each window, -1 for special tokens.
        values: the predictions of each window, one per token: ids [tokens] or scores [tokens, labels]. Pads at the end
            are ignored.

    Returns:
        The words of each page, pages in the order of their first window.

    Raises:
        ValueError: a window has fewer predictions than tokens.
    """
    parts: dict[Key, list[tuple[int, npt.NDArray[np.int64], Values]]] = {}
    for page, number, ids, value in zip(pages, windows, word_ids, values, strict=True):
        tokens = np.asarray(ids, np.int64)
        parts.setdefault(page, []).append((int(number), tokens, np.asarray(value)[: len(tokens)]))
    return {page: _page(windows) for page, windows in parts.items()}


def _page(windows: list[tuple[int, npt.NDArray[np.int64], Values]]) -> Words:
    windows.sort(key=lambda window: window[0])
    words = np.concatenate([ids for _, ids, _ in windows])
    values = np.concatenate([value for _, _, value in windows])
    if len(words) != len(values):
        raise ValueError(f"{len(values)} predictions for {len(words)} tokens")
    real = np.flatnonzero(words >= 0)
    found, first = np.unique(words[real], return_index=True)
    return Words(found, values[real[first]])


def stitch_tokens(values: Sequence[Values], stride: int) -> Values:
    """One value per token of a page, without special tokens and without the tokens that a previous window has.

    Args:
        values: [tokens, …] of each window of one page in order, with special tokens at both ends and without pads.
        stride: number of tokens that two neighbouring windows share.
    """
    inner = [np.asarray(value)[1:-1] for value in values]
    return np.concatenate([inner[0], *(value[stride:] for value in inner[1:])])
