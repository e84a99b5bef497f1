"""Texts that spoil training or a writer: lone surrogates, NUL, U+FFFD."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

REPLACEMENT = "\ufffd"
_LONE = re.compile("[\ud800-\udfff]")


def invalid(texts: pl.Series) -> pl.Series:
    """Boolean: texts that hold NUL or U+FFFD (Arrow cannot hold a lone surrogate: see ``sound``)."""
    return texts.str.contains_any(["\0", REPLACEMENT]).fill_null(False)


def described(text: str) -> str:
    """What makes a text invalid, in words."""
    found = [name for sign, name in (("\0", "NUL"), (REPLACEMENT, "U+FFFD")) if sign in text]
    if match := _LONE.search(text):
        found.insert(0, f"the lone surrogate \\u{ord(match[0]):04x}")
    return " and ".join(found)


def has_lone(text: str) -> bool:
    """Whether a Python text holds half of a surrogate pair."""
    return _LONE.search(text) is not None


def sound(text: str) -> str:
    """The text with U+FFFD for each lone surrogate."""
    return _LONE.sub(REPLACEMENT, text)
