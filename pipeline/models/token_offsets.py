"""Token offsets: the number of bytes of each token, and from it the byte span of each token in its text.

In byte-level vocabularies, every character of a token's spelling is one byte. In SentencePiece vocabularies with byte
fallback, ``▁`` is a space and ``<0xE2>`` one byte. ``Tokenizer.encode_bytes`` compares the sum with the size of every
text. Where they differ, because a normalizer changed the text, it takes the offsets of the reference library.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pipeline.models.tokenizer_engines import Int32s, Int64s

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def token_bytes(state: dict[str, Any], added: dict[str, int]) -> Int32s | None:
    """Number of bytes of each token by id, int32 [largest id + 1], 0 for an id without a token; None for a vocabulary
    whose tokens do not spell their text.

    Args:
        state: the parsed tokenizer.json.
        added: ids of added tokens by text; an added token spells its own text.
    """
    model = state.get("model", {})
    vocabulary = model.get("vocab")
    if model.get("type") != "BPE" or not isinstance(vocabulary, dict):
        return None
    table = np.zeros(max([*vocabulary.values(), *added.values(), 0]) + 1, np.int32)
    ids = np.fromiter(vocabulary.values(), np.int64, len(vocabulary))
    if _has(state.get("decoder"), "ByteLevel"):
        table[ids] = np.fromiter(map(len, vocabulary), np.int32, len(vocabulary))
    elif model.get("byte_fallback"):
        table[ids] = np.fromiter(map(_bytes_of_token, vocabulary), np.int32, len(vocabulary))
    else:
        return None
    for text, token_id in added.items():
        table[token_id] = len(text.encode())
    return table


def _bytes_of_token(token: str) -> int:
    return 1 if _BYTE.fullmatch(token) else len(token.replace("▁", " ").encode())


def _has(part: Any, kind: str) -> bool:
    if not isinstance(part, dict):
        return False
    if part.get("type") == kind:
        return True
    return any(_has(member, kind) for member in part.get("decoders", []))


def byte_spans(ids: Int32s, lengths: Int64s, table: Int32s) -> tuple[Int64s, Int64s, Int64s]:
    """The byte span [start, end) of each token in its own text, and the number of bytes of the tokens of each text."""
    sizes = table[ids].astype(np.int64)
    ends = np.cumsum(sizes)
    firsts = np.cumsum(lengths) - lengths
    total = np.concatenate([np.zeros(1, np.int64), ends])
    base = np.repeat(total[firsts], lengths)
    ends = ends - base
    return ends - sizes, ends, total[firsts + lengths] - total[firsts]


def bytes_of_characters(text: str, offsets: Int64s) -> Int64s:
    """The byte offset of each character offset of a text."""
    if text.isascii():
        return offsets
    widths = np.array([0, *(len(char.encode()) for char in text)], np.int64)
    return np.asarray(np.cumsum(widths)[offsets])
