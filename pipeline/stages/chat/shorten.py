"""Conversations that are too long: what goes first, and the whole way from turns to ids within the limit.

Each step makes new turns, which are then encoded like any other; only ``truncate_answer`` cuts finished ids, so that
no end of turn is invented.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from pipeline.arrow_lists import Int64s, within
from pipeline.batch import Batch, Findings
from pipeline.errors import GateError
from pipeline.reasons import Policy, Reason
from pipeline.schema.chat import Chat
from pipeline.schema.model import ChatSchema
from pipeline.stages.chat.assemble import END, Encoded
from pipeline.stages.chat.tokenize import ChatTokenizer, trained_turns
from pipeline.stages.chat.turns import SYSTEM, USER, Mask, Turns, conversation_findings

# Conversations that are too long: whole oldest exchanges go first, then what the schema says.


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


# Encode conversations and make them fit: the whole way from turns to ids within the limit, with its
# findings.


@dataclass(frozen=True, slots=True)
class FittedChats:
    """Conversations within the limit.

    Attributes:
        turns: as encoded: without dropped turns, with cut texts.
        encoded: their tokens; none where something was found.
        dropped: int64 [n], tokens lost to the limit.
    """

    turns: Turns
    encoded: Encoded
    dropped: Int64s


class ChatFitter:
    """Encodes the conversations of a schema within its limit."""

    def __init__(self, schema: ChatSchema, codec: ChatTokenizer, limit: int) -> None:
        self._schema, self._chat, self._codec, self._limit = schema, schema.chat, codec, limit

    def __call__(
        self,
        batch: Batch,
        turns: Turns,
        findings: Findings,
        tools: Sequence[Any] | None = None,
        audited: Int64s | None = None,
    ) -> FittedChats:
        """Encode; findings say what was cut, and what cannot be trained."""
        encoded = self._encode(turns, tools, audited)
        self._problems(batch, turns, encoded, findings)
        dropped = np.zeros(len(turns.counts), np.int64)
        long = np.flatnonzero(encoded.lengths > self._limit)
        if len(long):
            turns, encoded, dropped = self._shorten(batch, turns, encoded, long, tools, findings)
        return FittedChats(turns, encoded, dropped)

    def _encode(self, turns: Turns, tools: Sequence[Any] | None, audited: Int64s | None = None) -> Encoded:
        train_on = self._chat.train_on
        trained = trained_turns(turns, train_on)
        return self._codec.encode(turns, trained, tools, audited, whole=train_on == "all")

    def _problems(self, batch: Batch, turns: Turns, encoded: Encoded, findings: Findings) -> None:
        by_reason: dict[Reason, list[tuple[int, str]]] = {}
        for i, reason, found in encoded.problems:
            by_reason.setdefault(reason, []).append((i, found))
        for reason, hits in by_reason.items():
            at = np.array([i for i, _ in hits], np.int64)
            words = [found for _, found in hits]
            conversation_findings(findings, batch, turns, at, reason, Policy.QUARANTINE, words)

    def _shorten(
        self,
        batch: Batch,
        turns: Turns,
        encoded: Encoded,
        long: Int64s,
        tools: Sequence[Any] | None,
        findings: Findings,
    ) -> tuple[Turns, Encoded, Int64s]:
        """The conversations ``long`` made to fit, put back among the others."""
        before = encoded.lengths[long]
        policy = self._schema.policy(Reason.SEQUENCE_TOO_LONG)
        if policy is Policy.QUARANTINE:
            shown = [str(n) for n in before.tolist()]
            conversation_findings(
                findings, batch, turns, long, Reason.SEQUENCE_TOO_LONG, policy, shown, str(self._limit)
            )
            return turns, encoded, np.zeros(len(turns.counts), np.int64)
        some = _tools_of(tools, long)
        part, sub = turns.select(long), select(encoded, turns, long)
        part, sub = self._drop_turns(batch, turns, part, sub, long, some, findings)
        part, sub = self._last_exchange(batch, turns, part, sub, long, some, findings)
        self._problems(batch, part, sub, findings)
        dropped = np.zeros(len(turns.counts), np.int64)
        fits = sub.lengths <= self._limit
        dropped[long[fits]] = np.maximum(before - sub.lengths, 0)[fits]
        whole, put = _put_back(turns, encoded, part, sub, long)
        return whole, put, dropped

    def _drop_turns(
        self,
        batch: Batch,
        turns: Turns,
        part: Turns,
        sub: Encoded,
        long: Int64s,
        tools: Any,
        findings: Findings,
    ) -> tuple[Turns, Encoded]:
        if not self._chat.drop_oldest_turns:
            return part, sub
        total = np.zeros(len(long), np.int64)
        while True:
            shorter, gone = without_oldest(part, sub, self._limit)
            if not gone.any():
                break
            total += gone
            part, sub = shorter, self._encode(shorter, tools)
        hits = np.flatnonzero(total)
        conversation_findings(
            findings,
            batch,
            turns,
            long[hits],
            Reason.TURNS_TRUNCATED,
            Policy.REPAIR,
            [str(n) for n in total[hits].tolist()],
        )
        return part, sub

    def _last_exchange(
        self,
        batch: Batch,
        turns: Turns,
        part: Turns,
        sub: Encoded,
        long: Int64s,
        tools: Any,
        findings: Findings,
    ) -> tuple[Turns, Encoded]:
        """What the schema says of conversations whose last exchange does not fit."""
        limit, before = self._limit, sub.lengths
        over = np.flatnonzero(before > limit)
        if not len(over):
            return part, sub
        choice = self._chat.too_long
        if choice == "error":
            where = f"{batch.source}, row {int(batch.rows[turns.records[long[over[0]]]])}"
            raise GateError(
                "a conversation does not fit",
                where=where,
                found=f"{int(before[over[0]])} tokens",
                expected=f"at most {limit}",
                remedy="raise `max_tokens`, or choose another `too_long`",
            )
        if choice == "truncate_prompt":
            part, sub = repeat_cut(part, sub, limit, lambda shorter: self._encode(shorter, tools))
            cut = np.flatnonzero((before > limit) & (sub.lengths <= limit))
            conversation_findings(
                findings,
                batch,
                turns,
                long[cut],
                Reason.PROMPT_TRUNCATED,
                Policy.FLAG,
                [str(n) for n in (before - sub.lengths)[cut].tolist()],
            )
        elif choice == "truncate_answer":
            sub = cut_answer(sub, limit)
            learned = np.add.reduceat(
                np.append(sub.learned, False)[: len(sub.learned) + 1].astype(np.int64),
                np.minimum(np.cumsum(sub.lengths) - sub.lengths, max(len(sub.learned) - 1, 0)),
            )
            none = np.flatnonzero((before > limit) & (learned == 0))
            conversation_findings(
                findings, batch, turns, long[none], Reason.NO_SUPERVISED_TOKENS, Policy.QUARANTINE
            )
            cut = np.flatnonzero((before > limit) & (learned > 0))
            conversation_findings(
                findings,
                batch,
                turns,
                long[cut],
                Reason.ANSWER_TRUNCATED,
                Policy.FLAG,
                [str(n) for n in (before - sub.lengths)[cut].tolist()],
            )
        left = np.flatnonzero(sub.lengths > limit)
        conversation_findings(
            findings,
            batch,
            turns,
            long[left],
            Reason.TOO_LONG_FOR_TARGET,
            Policy.QUARANTINE,
            [str(n) for n in sub.lengths[left].tolist()],
            str(limit),
        )
        return part, sub


def _tools_of(tools: Sequence[Any] | None, conversations: Int64s) -> list[Any] | None:
    return None if tools is None else [tools[i] for i in conversations.tolist()]


def select(encoded: Encoded, turns: Turns, conversations: Int64s) -> Encoded:
    """The tokens of some conversations."""
    lengths = encoded.lengths[conversations]
    heads = (np.cumsum(encoded.lengths) - encoded.lengths)[conversations]
    index = np.repeat(heads, lengths) + within(lengths)
    counts = turns.counts[conversations]
    marks = np.repeat(turns.starts[conversations], counts) + within(counts)
    return Encoded(
        encoded.ids[index], lengths, encoded.learned[index], encoded.marks[marks], encoded.plain[index]
    )


def _put_back(
    turns: Turns, encoded: Encoded, part: Turns, sub: Encoded, long: Int64s
) -> tuple[Turns, Encoded]:
    """The shortened conversations among the others, in the order of all."""
    n = len(turns.counts)
    rest = np.setdiff1d(np.arange(n, dtype=np.int64), long)
    others = turns.select(rest)
    kept = select(encoded, turns, rest)
    order = np.argsort(np.concatenate([rest, long]), kind="stable")
    both = stacked(others, part).select(order)
    joined = Encoded(
        np.concatenate([kept.ids, sub.ids]),
        np.concatenate([kept.lengths, sub.lengths]),
        np.concatenate([kept.learned, sub.learned]),
        np.concatenate([kept.marks, sub.marks]),
        np.concatenate([kept.plain, sub.plain]),
    )
    back = select(joined, stacked(others, part), order)
    return both, replace(back, problems=encoded.problems)


def stacked(first: Turns, second: Turns) -> Turns:
    """Conversations of two parts of one batch, one part after the other."""
    return replace(
        first,
        counts=np.concatenate([first.counts, second.counts]),
        records=np.concatenate([first.records, second.records]),
        roles=np.concatenate([first.roles, second.roles]),
        frame=pl.concat([first.frame, second.frame]),
        train=np.concatenate([first.train, second.train]),
        origins=np.concatenate([first.origins, second.origins]),
        places=np.concatenate([first.places, second.places]),
        present=np.concatenate([first.present, second.present]),
    )


def limit_of(chat: Chat, model_limit: int | None) -> int:
    """Most tokens of a conversation: the schema's, and never more than the model takes."""
    return min(chat.max_tokens, model_limit) if model_limit is not None else chat.max_tokens
