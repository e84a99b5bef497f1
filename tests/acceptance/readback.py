"""Certified tokens turned back into words, boxes and turns, with nothing but the tokenizer's own file.

This is an oracle of its own: it does not read the record that the pipeline may keep beside the tokens.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.acceptance.outcome import Record, Row

IGNORE = -100
FRAMES = (
    ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ("<|im_start|>", "\n", "<|im_end|>"),
)
"""Start of a turn, end of its role, end of the turn."""


@dataclass
class Reader:
    """Turns ids of one tokenizer back into text."""

    folder: Path

    @cached_property
    def engine(self) -> Any:
        """The tokenizer, without any library of models around it."""
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.folder / "tokenizer.json"))

    @cached_property
    def config(self) -> dict[str, Any]:
        """Its settings."""
        config: dict[str, Any] = json.loads(
            (self.folder / "tokenizer_config.json").read_text(encoding="utf-8")
        )
        return config

    @property
    def size(self) -> int:
        """Number of its ids."""
        return int(self.engine.get_vocab_size(with_added_tokens=True))

    @cached_property
    def controls(self) -> set[int]:
        """Ids of its control tokens."""
        return {i for i, token in self.engine.get_added_tokens_decoder().items() if token.special}

    def id_of(self, role: str) -> int | None:
        """Id of ``bos``, ``eos``, ``pad`` …"""
        token = self.config.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        return None if token is None else self.engine.token_to_id(token)

    def text(self, ids: list[int]) -> str:
        """The text of ids, control tokens spelled out."""
        return str(self.engine.decode(ids, skip_special_tokens=False))

    def folded(self, text: Any) -> Any:
        """A text as this tokenizer keeps it: in its form of accents; lower case and without white space where its
        pieces are words."""
        normalizer = self.engine.normalizer
        if not isinstance(text, str) or normalizer is None:
            return text
        kept = normalizer.normalize_str(text)
        return "".join(kept.split()) if type(self.engine.model).__name__ == "WordPiece" else kept

    def words(self, record: Record) -> dict[int, str]:
        """Text of each word by its index, put together from the tokens of all windows."""
        return {w: self.text(ids).strip() for w, ids in sorted(_by_word(record, "input_ids").items())}

    def turns(self, ids: list[int]) -> list[tuple[str, str]] | None:
        """Role and content of each turn, found by the control tokens alone; None where the frame is unknown."""
        for start, middle, end in FRAMES:
            first, last = self.engine.token_to_id(start), self.engine.token_to_id(end)
            if first is None or last is None or first not in ids:
                continue
            return [self._turn(span, middle) for span in _spans(ids, first, last)]
        return None

    def _turn(self, span: list[int], middle: str) -> tuple[str, str]:
        border = self.engine.token_to_id(middle) if middle != "\n" else None
        if border is not None and border in span:
            at = span.index(border)
            return self.text(span[:at]), self.text(span[at + 1 :]).removeprefix("\n\n")
        role, _, content = self.text(span).partition("\n")
        return role, content


def _spans(ids: list[int], first: int, last: int) -> list[list[int]]:
    """The ids between each turn's start and its end (or the next start, or the end of all)."""
    spans: list[list[int]] = []
    inside = False
    for token in ids:
        if token == first:
            spans.append([])
            inside = True
        elif token == last:
            inside = False
        elif inside:
            spans[-1].append(token)
    return spans


def _by_word(record: Record, column: str) -> dict[int, list[Any]]:
    """Values of the tokens of each word, from the window that holds most of them."""
    best: dict[int, list[Any]] = {}
    for sample in record.samples:
        found: dict[int, list[Any]] = {}
        for word, value in zip(sample["word_ids"], sample[column], strict=True):
            if word >= 0:
                found.setdefault(word, []).append(value)
        for word, values in found.items():
            if len(values) > len(best.get(word, [])):
                best[word] = values
    return best


def boxes(record: Record) -> dict[int, list[float]]:
    """The box of each word by its index."""
    return {w: list(values[0]) for w, values in sorted(_by_word(record, "bbox").items())}


def labels(record: Record) -> dict[int, int]:
    """The label of each word by its index: of the first token that has one, in any window."""
    found: dict[int, int] = {}
    for sample in record.samples:
        for word, value in zip(sample["word_ids"], sample.get("labels") or (), strict=False):
            if word >= 0 and found.get(word, IGNORE) == IGNORE:
                found[word] = value
    return dict(sorted(found.items()))


def supervised(sample: Row) -> list[list[int]]:
    """Runs of ids that are trained on."""
    runs: list[list[int]] = []
    before = False
    for token, label in zip(sample["input_ids"], sample["labels"], strict=True):
        if label != IGNORE:
            if not before:
                runs.append([])
            runs[-1].append(token)
        before = label != IGNORE
    return runs
