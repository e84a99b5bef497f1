"""Conversations that are too long: whole oldest exchanges go first, then what the schema says.

Each step makes new turns, which are then encoded like any other; only ``truncate_answer`` cuts finished ids, so that
no end of turn is invented.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from pipeline.arrays import Int64s
from pipeline.stages.chat.codec import END, Encoded
from pipeline.stages.chat.turns import SYSTEM, USER, Mask, Turns

Encode = Callable[[Turns], Encoded]
MAX_ROUNDS = 12
"""Most times a conversation is shortened and encoded again."""


def without_oldest(turns: Turns, encoded: Encoded, limit: int) -> tuple[Turns, Int64s]:
    """The turns of too long conversations without their oldest exchanges, as many as it takes by the count of tokens;
    and the number of turns dropped of each conversation, 0 where nothing can go.

    An exchange is a user's turn and all that follows it before the next user's turn. System turns at the head and
    the last exchange stay.
    """
    keep = np.ones(len(turns.roles), np.bool_)
    dropped = np.zeros(len(turns.counts), np.int64)
    for i, (start, count) in enumerate(zip(turns.starts.tolist(), turns.counts.tolist(), strict=True)):
        over = int(encoded.lengths[i]) - limit
        if over <= 0:
            continue
        roles = turns.roles[start : start + count]
        users = np.flatnonzero(roles == USER)
        ends = np.concatenate([[0], encoded.marks[start : start + count, END]])
        if len(users) < 2 or (roles[: users[0]] != SYSTEM).any():
            continue
        saved = ends[users[1:]] - ends[users[0]]
        enough = np.flatnonzero(saved >= over)
        until = int(users[1:][enough[0]] if len(enough) else users[-1])
        keep[start + int(users[0]) : start + until] = False
        dropped[i] = until - int(users[0])
    return turns.take(keep), dropped


def cut_prompt(turns: Turns, encoded: Encoded, limit: int) -> tuple[Turns, Mask]:
    """The turns with the last user's text cut at its end by as many tokens as are too many; and which conversations
    were cut (those whose text would vanish are not)."""
    cut = np.zeros(len(turns.counts), np.bool_)
    at: list[int] = []
    texts: list[str] = []
    for i, (start, count) in enumerate(zip(turns.starts.tolist(), turns.counts.tolist(), strict=True)):
        over = int(encoded.lengths[i]) - limit
        users = np.flatnonzero(turns.roles[start : start + count] == USER)
        if over <= 0 or not len(users):
            continue
        turn = start + int(users[-1])
        first = int(encoded.marks[turn - 1, END]) if turn > start else 0
        tokens = int(encoded.marks[turn, END]) - first
        text = turns.content[turn]
        # The share of the text that its tokens leave: encoding again says whether it was enough.
        left = int(len(text) * max(0, tokens - over) / max(1, tokens)) - 1
        shorter = text[: max(0, left)].rstrip()
        if shorter:
            at.append(turn)
            texts.append(shorter)
            cut[i] = True
    if not at:
        return turns, cut
    content = turns.content.scatter(pl.Series(at), pl.Series(texts, dtype=pl.String))
    return turns.with_content(content), cut


def repeat_cut(turns: Turns, encoded: Encoded, limit: int, encode: Encode) -> tuple[Turns, Encoded]:
    """Cut prompts until the conversations fit; those that cannot stay too long."""
    for _ in range(MAX_ROUNDS):
        if not (encoded.lengths > limit).any():
            break
        shorter, cut = cut_prompt(turns, encoded, limit)
        if not cut.any():
            break
        turns, encoded = shorter, encode(shorter)
    return turns, encoded


def cut_answer(encoded: Encoded, limit: int) -> Encoded:
    """Ids and mask cut to the limit; turns that lie behind it end there. Nothing is put in place of what is lost."""
    heads = np.cumsum(encoded.lengths) - encoded.lengths
    place = np.arange(len(encoded.ids)) - np.repeat(heads, encoded.lengths)
    keep = place < limit
    return replace(
        encoded,
        ids=encoded.ids[keep],
        lengths=np.minimum(encoded.lengths, limit),
        learned=encoded.learned[keep],
        plain=encoded.plain[keep],
        marks=np.minimum(encoded.marks, limit),
    )
