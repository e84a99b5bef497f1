"""A sample conversation in tokens, as a shard would hold it: for people to look at."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.fields import message_dtype
from pipeline.models.probe import Proof
from pipeline.stages.chat.codec import Codec, trained_turns
from pipeline.stages.chat.join import listed
from pipeline.stages.chat.turns import ROLES, Turns

SAMPLE = (
    ("system", "You explain terms in one sentence."),
    ("user", "What is a reef?"),
    ("assistant", "A ridge of rock or coral just below the surface."),
    ("user", "And STOP in a text?"),
    ("assistant", "Plain text."),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tokens of one sort, with the text they decode to."""

    text: str
    learned: bool
    control: bool


def turns_of(conversations: Sequence[Sequence[tuple[str, str]]]) -> Turns:
    """Turns of conversations given as (role, content)."""
    names = [field.name for field in message_dtype().fields]
    rows = [
        [
            dict.fromkeys(names) | {"role": role, "content": text, "content_kind": "text"}
            for role, text in turns
        ]
        for turns in conversations
    ]
    series = pl.Series("messages", rows, dtype=pl.List(message_dtype()))
    return listed(series, "messages", {role: role for role in ROLES})


def preview(proof: Proof, *, with_system: bool = True) -> list[Piece]:
    """The sample conversation, audited; runs of learned, unlearned and control tokens.

    Raises:
        TokenizerError: ids or mask differ from the template and the reference tokenizer as a whole.
    """
    plain = [turn for turn in SAMPLE if with_system or turn[0] != "system"]
    stop = proof.tokenizer.special_texts.get("eos", "")
    conversation = [(role, text.replace("STOP", stop)) for role, text in plain]
    turns = turns_of([conversation, plain])
    codec = Codec(proof.template, proof.tokenizer)
    encoded = codec.encode(turns, trained_turns(turns, "assistant"), audited=np.array([1]))
    length = int(encoded.lengths[0])
    ids, learned = encoded.ids[:length], encoded.learned[:length]
    control = proof.tokenizer.is_control[ids]
    edges = np.flatnonzero(np.diff(learned.astype(int) * 2 + control)) + 1
    bounds = [0, *edges.tolist(), length]
    return [
        Piece(proof.tokenizer.decode(ids[a:b]), bool(learned[a]), bool(control[a]))
        for a, b in itertools.pairwise(bounds)
        if b > a
    ]
