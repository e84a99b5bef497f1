"""Known chat template families: how each marks its turns, and which tokenizers it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TemplateFamily:
    """One family.

    Attributes:
        name: as people call it.
        markers: texts that only this family writes around turns.
        tokens: special tokens by which a tokenizer of this family is known.
    """

    name: str
    markers: tuple[str, ...]
    tokens: tuple[str, ...]


FAMILIES: tuple[TemplateFamily, ...] = (
    TemplateFamily(
        "Llama 3",
        ("<|start_header_id|>", "<|eot_id|>"),
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
    TemplateFamily("Llama 4", ("<|header_start|>", "<|eot|>"), ("<|header_start|>", "<|eot|>")),
    TemplateFamily(
        "ChatML (Qwen and others)", ("<|im_start|>", "<|im_end|>"), ("<|im_start|>", "<|im_end|>")
    ),
    TemplateFamily("Gemma", ("<start_of_turn>", "<end_of_turn>"), ("<start_of_turn>", "<end_of_turn>")),
    TemplateFamily("Mistral", ("[INST]", "[/INST]"), ("[INST]", "[/INST]")),
    TemplateFamily("DeepSeek", ("<｜User｜>", "<｜Assistant｜>"), ("<｜User｜>", "<｜Assistant｜>")),
    TemplateFamily("Phi 3", ("<|user|>", "<|end|>"), ("<|user|>", "<|assistant|>", "<|end|>")),
    TemplateFamily("Phi 4", ("<|im_sep|>",), ("<|im_start|>", "<|im_sep|>")),
    TemplateFamily("Zephyr", ("<|system|>", "<|user|>", "<|assistant|>"), ("<|user|>", "<|assistant|>")),
    TemplateFamily(
        "Command R", ("<|START_OF_TURN_TOKEN|>",), ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
    ),
)

MARKER = re.compile(
    r"<\|[^<>|\s]{1,40}\|>|<｜[^<>｜\s]{1,40}｜>|<(?:start|end)_of_turn>|</?s>|<(?:bos|eos)>|\[/?INST\]"
    r"|\[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\]|\[TOOL_CALLS\]"
)
"""Texts that look like the marker of a turn."""


def family_of_template(written: Iterable[str]) -> TemplateFamily | None:
    """The family whose markers a template writes: the one with the most of them."""
    texts = set(written)
    hits = [(sum(m in texts for m in f.markers) / len(f.markers), f) for f in FAMILIES]
    best = max(hits, key=lambda hit: hit[0])
    return best[1] if best[0] > 0 else None


def family_of_tokenizer(tokens: Iterable[str]) -> TemplateFamily | None:
    """The family whose tokens a tokenizer has: the one that names most of them."""
    known = set(tokens)
    fitting = [f for f in FAMILIES if all(token in known for token in f.tokens)]
    return max(fitting, key=lambda f: len(f.tokens)) if fitting else None
