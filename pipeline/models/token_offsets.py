"""How many bytes of text each token stands for, and from that where each token stands in its text.

For byte-level vocabularies every character of a token's spelling is one byte. For SentencePiece-style ones with byte
fallback, ``▁`` is a space and ``<0xE2>`` one byte. The sums are proven for every text: where the tokens of a text do
not add up to its bytes (a normalizer changed it), the reference library gives the places.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pipeline.models.tokenizer_engines import Int32s, Int64s

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def token_bytes(state: dict[str, Any], added: dict[str, int]) -> Int32s | None:
    """Bytes of each token by id, int32 [largest id + 1], 0 where there is no token; None for vocabularies whose
    tokens do not spell their text.

    Args:
        state: the parsed tokenizer.json.
        added: ids of added tokens by text: these stand for themselves.
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
        table[ids] = np.fromiter(map(_spelled, vocabulary), np.int32, len(vocabulary))
    else:
        return None
    for text, token_id in added.items():
        table[token_id] = len(text.encode())
    return table


def _spelled(token: str) -> int:
    return 1 if _BYTE.fullmatch(token) else len(token.replace("▁", " ").encode())


def _has(part: Any, kind: str) -> bool:
    if not isinstance(part, dict):
        return False
    if part.get("type") == kind:
        return True
    return any(_has(member, kind) for member in part.get("decoders", []))


def byte_places(ids: Int32s, lengths: Int64s, table: Int32s) -> tuple[Int64s, Int64s, Int64s]:
    """First and one past the last byte of each token in its own text; and the bytes of each text's tokens."""
    sizes = table[ids].astype(np.int64)
    ends = np.cumsum(sizes)
    heads = np.cumsum(lengths) - lengths
    total = np.concatenate([np.zeros(1, np.int64), ends])
    base = np.repeat(total[heads], lengths)
    ends = ends - base
    return ends - sizes, ends, total[heads + lengths] - total[heads]


def bytes_of_characters(text: str, places: Int64s) -> Int64s:
    """Byte offset of each character offset of a text."""
    if text.isascii():
        return places
    widths = np.array([0, *(len(char.encode()) for char in text)], np.int64)
    return np.asarray(np.cumsum(widths)[places])


def character_spans(text: str, starts: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Character offsets of byte offsets: a token that holds part of a character spans the whole of it."""
    if text.isascii():
        return starts, ends
    raw = np.frombuffer(text.encode(), np.uint8)
    heads = np.cumsum((raw & 0xC0) != 0x80)  # number of characters begun up to and with each byte
    first = heads[np.minimum(starts, len(raw) - 1)] - 1
    last = heads[np.maximum(ends - 1, 0)]
    return first.astype(np.int64), np.where(ends > starts, last, first).astype(np.int64)
