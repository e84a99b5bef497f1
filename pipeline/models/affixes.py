"""The special tokens that a tokenizer puts around one plain text, as its post-processor says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pipeline.models.engine import Int32s

PROBE, PROBE_ID = "a", 2**31 - 1


def affixes(state: dict[str, Any]) -> tuple[Int32s, Int32s]:
    """Ids before and after a text (``[CLS] … [SEP]``, ``<s> … </s>``, a start token alone), int32.

    The post-processor carries its ids, so it is asked over a vocabulary of one word: loading the tokenizer itself
    again would cost more than all else at the start of a run.

    Args:
        state: the parsed tokenizer.json.
    """
    import tokenizers

    processor = state.get("post_processor")
    if processor is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    model = {"type": "WordLevel", "vocab": {PROBE: PROBE_ID}, "unk_token": PROBE}
    small = {"version": "1.0", "added_tokens": [], "model": model, "post_processor": processor}
    names = ("truncation", "padding", "normalizer", "pre_tokenizer", "decoder")
    backend = tokenizers.Tokenizer.from_str(json.dumps(dict.fromkeys(names) | small))
    whole = np.asarray(backend.encode(PROBE, add_special_tokens=True).ids, np.int64)
    at = int(np.flatnonzero(whole == PROBE_ID)[0])
    return whole[:at].astype(np.int32), whole[at + 1 :].astype(np.int32)
