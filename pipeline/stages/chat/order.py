"""The order of turns: the turn grammar, judged, and repaired where the schema allows it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.arrow_lists import Int64s
from pipeline.batch import Batch, Findings
from pipeline.errors import SchemaError
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.stages.chat.turns import (
    ASSISTANT,
    CALL,
    ROLES,
    UNKNOWN,
    USER,
    Mask,
    Turns,
    clip,
    conversation_findings,
    role_strings,
    spelled,
    turn_findings,
)

# The turn grammar: the schema's string compiled to a regular expression over role letters.


LETTERS = {**{role: role[0] for role in ROLES}, CALL: "c"}
LONGEST_EXAMPLE = 5
_TOKEN = re.compile(r"\s*(?:([A-Za-z_]+)|([?*+|()]))")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A compiled grammar.

    Attributes:
        text: as the schema writes it.
        pattern: regular expression that a conversation's whole role string must match.
        roles: names of the roles it may hold.
    """

    text: str
    pattern: str
    roles: tuple[str, ...]

    def matches(self, letters: str) -> bool:
        """Whether one conversation's roles follow the grammar."""
        return self.matching([letters])[0]

    def matching(self, letters: Sequence[str]) -> list[bool]:
        """Whether each of several role strings follows the grammar; in time linear in their length."""
        found = pl.Series(letters, dtype=pl.String).str.contains(f"^(?:{self.pattern})$")
        return found.to_list()

    def examples(self) -> tuple[str, ...]:
        """The shortest conversations the grammar allows, tool calls left out: at most one exchange, and two; with and
        without each role that is optional."""
        short = [
            "".join(letters)
            for n in range(1, LONGEST_EXAMPLE + 1)
            for letters in itertools.product("sua", repeat=n)
        ]
        fitting = [
            text for text, fits in zip(short, self.matching(short), strict=True) if fits and "a" in text
        ]
        kinds: dict[tuple[frozenset[str], int], str] = {}
        for text in fitting:
            kinds.setdefault((frozenset(text), min(text.count("a"), 2)), text)
        return tuple(kinds.values())

    def required(self) -> tuple[str, ...]:
        """Roles without which no conversation follows the grammar."""
        examples = self.examples()
        return tuple(
            role for role in ("system", "user", "assistant") if all(role[0] in text for text in examples)
        )

    @property
    def tools(self) -> bool:
        """Whether conversations may hold tool calls."""
        return "tool" in self.roles or CALL in self.roles


def compile_grammar(text: str) -> Grammar:
    """Compile a grammar: role names, ``?``, ``+``, ``*``, ``|`` and brackets.

    Raises SchemaError where it is none; the text is never used as a regular expression itself.
    """
    out: list[str] = []
    roles: list[str] = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        token = _TOKEN.match(stripped, position)
        if token is None:
            raise _error(text, f"the character {stripped[position : position + 1]!r}")
        name, sign = token.groups()
        if name is not None:
            if name not in LETTERS:
                raise _error(text, f"the role {name!r}")
            roles.append(name)
            out.append(LETTERS[name])
        elif sign in "?*+" and (not out or out[-1] in ("(?:", "|", "?", "*", "+")):
            raise _error(text, f"{sign!r} after nothing")
        else:
            out.append("(?:" if sign == "(" else sign)
        position = token.end()
    pattern = "".join(out)
    try:
        re.compile(pattern)
    except re.error:
        raise _error(text, "unbalanced brackets") from None
    if not roles:
        raise _error(text, "no role")
    return Grammar(text, pattern, tuple(dict.fromkeys(roles)))


def _error(text: str, found: str) -> SchemaError:
    return SchemaError(
        "the turn grammar is not valid",
        where="chat: grammar",
        found=f"{found} in {text[:80]!r}",
        expected="role names (" + ", ".join(LETTERS) + ") with ? + * | and brackets",
        remedy='for example "system? (user assistant)+"',
    )


# Judge the order of turns against the grammar; merge and drop turns where the schema allows it.


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
    turn_findings(findings, batch, turns, hits, Reason.ROLE_UNKNOWN, policy, found, names, member="role")


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
        conversation_findings(
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
    conversation_findings(
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
    conversation_findings(findings, batch, turns, hits, Reason.TURN_DROPPED, Policy.REPAIR, "user")
    return turns.take(~drop)


def _last_of_other_role(turns: Turns) -> Int64s:
    """int64 [n], index of the last turn that is no user turn, -1 without one."""
    last = np.full(len(turns.counts), -1, np.int64)
    others = np.flatnonzero(turns.roles != USER)
    last[turns.owner[others]] = others
    return last
