"""The special tokens that a tokenizer puts around one plain text, as its post-processor says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pipeline.models.engine import Int32s
    from pipeline.models.tokenizer import Tokenizer

PROBE = "a"


def affixes(tokenizer: Tokenizer, state: dict[str, Any]) -> tuple[Int32s, Int32s]:
    """Ids before and after a text (``[CLS] … [SEP]``, ``<s> … </s>``, a start token alone), int32.

    Args:
        tokenizer: gives the bare ids of a probe text.
        state: the parsed tokenizer.json, whose ``post_processor`` is asked.
    """
    import tokenizers

    backend = tokenizers.Tokenizer.from_str(json.dumps({**state, "truncation": None, "padding": None}))
    whole = np.asarray(backend.encode(PROBE, add_special_tokens=True).ids, np.int32)
    bare, _ = tokenizer.encode([PROBE])
    for start in range(len(whole) - len(bare) + 1):
        if np.array_equal(whole[start : start + len(bare)], bare):
            return whole[:start], whole[start + len(bare) :]
    return np.empty(0, np.int32), np.empty(0, np.int32)
