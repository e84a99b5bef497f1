"""The turn grammar: the schema's string compiled to a regular expression over role letters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.errors import SchemaError
from pipeline.stages.chat.turns import CALL, ROLES

LETTERS = {**{role: role[0] for role in ROLES}, CALL: "c"}
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
        return re.fullmatch(self.pattern, letters) is not None

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
