"""Judge the order of turns against the grammar; merge and drop turns where the schema allows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from pipeline.arrays import Int64s
from pipeline.batch import Batch, Findings
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.stages.chat.grammar import Grammar
from pipeline.stages.chat.report import clip, report_conversations, report_turns
from pipeline.stages.chat.turns import ASSISTANT, UNKNOWN, USER, Mask, Turns, role_strings, spelled

JOINER = "\n\n"
"""Text between two merged turns."""


def judge_roles(
    batch: Batch, turns: Turns, schema: Schema, names: str, findings: Findings, skip: tuple[str, ...] = ()
) -> None:
    """Roles outside the list; ``names`` says which there are. Turns from the columns ``skip`` are not reported."""
    muted = np.array([name in skip for name in turns.columns], np.bool_)[turns.origins]
    hits = np.flatnonzero((turns.roles == UNKNOWN) & ~muted)
    if not len(hits):
        return
    written = turns.frame["role"][pl.Series(hits)].to_list()
    found = ["missing" if role is None else clip(repr(role)) for role in written]
    policy = schema.policy(Reason.ROLE_UNKNOWN)
    report_turns(findings, batch, turns, hits, Reason.ROLE_UNKNOWN, policy, found, names, member="role")


def judge_order(batch: Batch, turns: Turns, schema: Schema, grammar: Grammar, findings: Findings) -> Turns:
    """Findings on conversations that do not follow the grammar, and the turns after the repairs opted in to."""
    merging = schema.policy(Reason.ROLE_ORDER) is Policy.REPAIR
    if schema.policy(Reason.LAST_TURN_NOT_ASSISTANT) is Policy.REPAIR:
        turns = _drop_trailing(batch, turns, grammar, merging, findings)
    if merging:
        turns = _merge(batch, turns, grammar, findings)
    letters = role_strings(turns)
    known = turns.present & np.array(["?" not in text for text in letters], np.bool_)
    problems = {text: _problems(text, grammar) for text in dict.fromkeys(letters)}
    for reason in (
        Reason.CONVERSATION_EMPTY,
        Reason.NO_USER_TURN,
        Reason.NO_ASSISTANT_TURN,
        Reason.LAST_TURN_NOT_ASSISTANT,
        Reason.ROLE_ORDER,
    ):
        bad = np.array([reason in problems[text] for text in letters], np.bool_) & known
        hits = np.flatnonzero(bad)
        if not len(hits):
            continue
        words = [spelled(letters[i]) for i in hits.tolist()]
        if reason is Reason.LAST_TURN_NOT_ASSISTANT:
            words = [spelled(letters[i][-1:]) for i in hits.tolist()]
        # An order that a repair could not set right goes to the quarantine.
        report_conversations(
            findings, batch, turns, hits, reason, Policy.QUARANTINE, words, clip(grammar.text)
        )
    return turns


def _problems(letters: str, grammar: Grammar) -> tuple[Reason, ...]:
    """What is wrong with one order of roles; the reasons that say it best."""
    if not letters:
        return (Reason.CONVERSATION_EMPTY,)
    missing = []
    if "u" not in letters and "user" in grammar.roles:
        missing.append(Reason.NO_USER_TURN)
    if "a" not in letters and "c" not in letters:
        missing.append(Reason.NO_ASSISTANT_TURN)
    if missing:
        return tuple(missing)
    if grammar.matches(letters):
        return ()
    if letters[-1] == "a":
        return (Reason.ROLE_ORDER,)
    if grammar.matches(letters.rstrip("us")):
        return (Reason.LAST_TURN_NOT_ASSISTANT,)
    return (Reason.LAST_TURN_NOT_ASSISTANT, Reason.ROLE_ORDER)


def _needs(turns: Turns, wrong: Callable[[str], bool]) -> Mask:
    """bool [n], conversations whose role string is wrong."""
    letters = role_strings(turns)
    verdicts = {text: wrong(text) for text in dict.fromkeys(letters)}
    return np.array([verdicts[text] for text in letters], np.bool_) & turns.present


def _merge(batch: Batch, turns: Turns, grammar: Grammar, findings: Findings) -> Turns:
    """Join neighbouring turns of one role, where that makes the order right. Turns that call tools, and those
    without a text, are not joined."""

    def mergeable(letters: str) -> bool:
        return bool(letters) and not grammar.matches(letters) and grammar.matches(_squeezed(letters))

    broken = _needs(turns, mergeable)
    if not broken.any():
        return turns
    plain = turns.content.is_not_null().to_numpy() & ~turns.calls
    owner = turns.owner
    follows = np.zeros(len(owner), np.bool_)
    follows[1:] = (
        (owner[1:] == owner[:-1])
        & (turns.roles[1:] == turns.roles[:-1])
        & (turns.roles[1:] <= ASSISTANT)
        & plain[1:]
        & plain[:-1]
        & (turns.train[1:] == turns.train[:-1])
    )
    follows &= broken[owner]
    if not follows.any():
        return turns
    group = np.cumsum(~follows) - 1
    texts = (
        pl.DataFrame({"group": group, "content": turns.content})
        .group_by("group", maintain_order=True)
        .agg(
            pl.when(pl.len() == 1)
            .then(pl.col("content").first())
            .otherwise(pl.col("content").str.join(JOINER))
            .first()
        )
    )
    merged = np.bincount(owner[follows], minlength=len(turns.counts))
    hits = np.flatnonzero(merged)
    report_conversations(
        findings, batch, turns, hits, Reason.TURNS_MERGED, Policy.REPAIR, [str(n) for n in merged[hits]]
    )
    return turns.take(~follows).with_content(texts["content"])


def _squeezed(letters: str) -> str:
    """The order after merging: runs of system, user and plain assistant turns become one."""
    out: list[str] = []
    for letter in letters:
        if not (out and out[-1] == letter and letter in "sua"):
            out.append(letter)
    return "".join(out)


def _drop_trailing(batch: Batch, turns: Turns, grammar: Grammar, merging: bool, findings: Findings) -> Turns:
    """Drop user turns after the last answer, where that (and merging, if that comes next) makes the order right."""

    def droppable(letters: str) -> bool:
        short = letters.rstrip("u")
        if short == letters or grammar.matches(letters):
            return False
        return grammar.matches(short) or (merging and grammar.matches(_squeezed(short)))

    hits = np.flatnonzero(_needs(turns, droppable))
    if not len(hits):
        return turns
    last = _last_of_other_role(turns)
    index = np.arange(len(turns.roles))
    chosen = np.zeros(len(turns.counts), np.bool_)
    chosen[hits] = True
    drop = chosen[turns.owner] & (index > last[turns.owner])
    report_conversations(findings, batch, turns, hits, Reason.TURN_DROPPED, Policy.REPAIR, "user")
    return turns.take(~drop)


def _last_of_other_role(turns: Turns) -> Int64s:
    """int64 [n], index of the last turn that is no user turn, -1 without one."""
    last = np.full(len(turns.counts), -1, np.int64)
    others = np.flatnonzero(turns.roles != USER)
    last[turns.owner[others]] = others
    return last
