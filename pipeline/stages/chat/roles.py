"""Names of roles: canonical ones, the documented ones of each format, and the schema's aliases."""

from __future__ import annotations

import numpy as np
import polars as pl

from pipeline.errors import SchemaError
from pipeline.schema.chat import Chat
from pipeline.stages.chat.turns import ASSISTANT, CALL, ROLES, UNKNOWN, Int8s, Mask

FORMAT_ALIASES: dict[str, dict[str, str]] = {
    "sharegpt": {"human": "user", "gpt": "assistant", "function_call": CALL, "observation": "tool"},
    "openai": {"developer": "system", "function": "tool"},
    "tree": {"prompter": "user"},
}
"""Role names that a format's own documentation gives: ShareGPT, OpenAI, OpenAssistant."""


def aliases_of(chat: Chat) -> dict[str, str]:
    """Every accepted role name, folded, with the canonical role it means.

    Raises SchemaError for an alias of a role that does not exist.
    """
    names = {role: role for role in (*ROLES, CALL)}
    names |= FORMAT_ALIASES.get(chat.source.format, {})
    for name, role in chat.aliases.items():
        target = role.strip().casefold()
        if target not in (*ROLES, CALL):
            raise SchemaError(
                "an alias names no role",
                where="chat: aliases",
                found=f"{name!r}: {role!r}",
                expected=", ".join((*ROLES, CALL)),
            )
        names[name.strip().casefold()] = target
    return names


def role_codes(written: pl.Series, aliases: dict[str, str]) -> tuple[Int8s, Mask]:
    """Code of each role as written, ``UNKNOWN`` where it is none; and whether it names a tool-calling turn."""
    codes = {name: ASSISTANT if role == CALL else ROLES.index(role) for name, role in aliases.items()}
    distinct = written.unique(maintain_order=True).drop_nulls().to_list()
    known = {text: codes.get(text.strip().casefold(), UNKNOWN) for text in distinct}
    calling = {text for text in distinct if aliases.get(text.strip().casefold()) == CALL}
    if not known:
        return np.full(len(written), UNKNOWN, np.int8), np.zeros(len(written), np.bool_)
    found = written.replace_strict(list(known), list(known.values()), default=UNKNOWN, return_dtype=pl.Int8)
    is_call = written.is_in(sorted(calling)).fill_null(False) if calling else None
    return (
        found.fill_null(UNKNOWN).to_numpy().astype(np.int8),
        is_call.to_numpy() if is_call is not None else np.zeros(len(written), np.bool_),
    )
