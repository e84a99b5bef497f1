"""Engines that encode texts: the reference, and an optional faster one that must first prove that it gives equal ids.

Both encode plain text: they add no special token, and a text that spells a special token stays text. Both give the same
ids, so the choice of the engine decides no byte of a shard.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.errors import TokenizerError
from pipeline.models.fingerprint import PROBE_TEXTS

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Engine(Protocol):
    """A tokenizing engine."""

    name: str

    def encode(self, texts: Sequence[str]) -> tuple[Int32s, Int64s]:
        """The ids of all texts one after the other, int32, and the number of ids of each text, int64 [len(texts)]."""
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


VARIABLE = "CLEANROOM_TOKENIZER"
"""Environment variable: ``reference`` never uses the fast engine, ``fast`` uses it from the first text."""
AUDIT_EVERY = 1000
"""Both engines encode one text out of this many, and their ids are compared."""
BREAK_EVEN = 16
"""Number of characters per token of the vocabulary from which the fast engine saves time: to load it takes about a
second for 128,000 tokens, and the reference encodes two million characters in the same time."""


class FastEngine:
    """The package fastokens (extra ``[fast]``) with the same tokenizer."""

    name = "fastokens"

    def __init__(self, state: dict[str, Any], reference: Engine) -> None:
        """Raises an exception of any kind where the package is missing or refuses the tokenizer."""
        os.environ.setdefault("FASTOKENS_BPE_THREADS", "1")
        from fastokens import Tokenizer

        self._tokenizer = Tokenizer.from_json_str(
            msgspec.json.encode({**state, "post_processor": None}).decode()
        )
        self._reference = reference
        self._seen = 0

    def encode(self, texts: Sequence[str]) -> tuple[Int32s, Int64s]:
        """As ``Engine.encode``; raises ``TokenizerError`` when the audit finds a difference."""
        ids, lengths = self._encode(texts)
        first = -self._seen % AUDIT_EVERY
        self._seen += len(texts)
        if first < len(texts):
            self._audit(texts, ids, lengths, first)
        return ids, lengths

    def _encode(self, texts: Sequence[str]) -> tuple[Int32s, Int64s]:
        ids, ends = self._tokenizer.encode_batch_flat(list(texts), split_special_tokens=True)
        bounds = np.frombuffer(ends, np.uint64).astype(np.int64)
        return np.frombuffer(ids, np.int32), bounds[1:] - bounds[:-1]

    def _audit(self, texts: Sequence[str], ids: Int32s, lengths: Int64s, first: int) -> None:
        picked = range(first, len(texts), AUDIT_EVERY)
        expected, counts = self._reference.encode([texts[i] for i in picked])
        ends = np.cumsum(lengths)
        found = [ids[ends[i] - lengths[i] : ends[i]] for i in picked]
        if not np.array_equal(lengths[list(picked)], counts) or not np.array_equal(
            np.concatenate(found), expected
        ):
            raise TokenizerError(
                "the fast tokenizer differs from the reference",
                found="other ids for an audited text",
                expected="equal ids",
                remedy=f"set {VARIABLE}=reference and run again",
            )

    def equals_reference(self) -> bool:
        """Whether it gives the ids of the reference for the texts of the self-test."""
        texts = selftest_texts()
        ids, lengths = self._encode(texts)
        expected, counts = self._reference.encode(texts)
        return np.array_equal(lengths, counts) and np.array_equal(ids, expected)


def selftest_texts() -> list[str]:
    """About 500 fixed difficult texts: the probe texts, and pairs of them joined in different ways."""
    probes = list(PROBE_TEXTS)
    joints = ("", " ", "\n", "\n\n", " \n ", "'", "\u00a0", "\u200d", ".", "0", "é", "<|eot_id|>", "</s>")
    texts = list(probes)
    for step, joint in enumerate(joints, start=1):
        texts.extend(a + joint + probes[(i + step) % len(probes)] for i, a in enumerate(probes))
    return texts


def break_even(state: dict[str, Any]) -> int:
    """Number of characters from which the fast engine is loaded, for a parsed tokenizer.json."""
    return BREAK_EVEN * len(state.get("model", {}).get("vocab", ()))


def choose(state: dict[str, Any], reference: Engine, characters: int) -> Engine | None:
    """The engine for all further texts; None keeps the reference for now.

    The engine is the fast one when it is installed and gives equal ids, else the reference. It is chosen when
    ``characters`` or the environment asks for the fast engine.

    Args:
        state: the parsed tokenizer.json.
        reference: the reference engine.
        characters: number of characters encoded so far, or expected.
    """
    choice = os.environ.get(VARIABLE, "auto")
    if choice == "reference" or (choice != "fast" and characters < break_even(state)):
        return None
    try:
        engine = FastEngine(state, reference)
        proven = engine.equals_reference()
    except Exception:  # the package is missing or refuses this tokenizer
        return reference
    return engine if proven else reference
