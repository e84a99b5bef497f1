"""The turn grammar: the schema's string compiled to a regular expression over role letters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from pipeline.errors import SchemaError
from pipeline.stages.chat.turns import CALL, ROLES

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
