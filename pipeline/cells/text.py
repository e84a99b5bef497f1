"""Texts that spoil training or a writer: lone surrogates, NUL, U+FFFD."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import polars as pl

REPLACEMENT = "\ufffd"
_LONE = re.compile("[\ud800-\udfff]")


_BEHIND = np.zeros(256, np.bool_)
_BEHIND[[0xC2, 0xC5, 0xC6, 0xCB, 0xE2]] = True
"""First bytes of what stands behind the lead character of a doubly encoded one."""
_ESCAPES = re.compile(rb"\\u(?:0000|[fF]{3}[dD]|00[cCdDeEfF])")


def is_sound(data: bytes, *, json: bool = False) -> bool:
    """Whether UTF-8 bytes prove that no text in them holds NUL, U+FFFD or a doubly encoded character.

    A cheap pass over a block that spares a look at each text; False says nothing. ``json``: escapes count, too.
    """
    if b"\0" in data:
        return False
    array = np.frombuffer(data, np.uint8)
    if json:
        escapes = _rare(data, ord("\\"), 1) + 1
        if (array[escapes] == ord("u")).any() and _ESCAPES.search(data):
            return False
    return is_encoded_once(data)


def is_encoded_once(data: bytes) -> bool:
    """Whether UTF-8 bytes prove that no text in them holds U+FFFD or a doubly encoded character, but by an escape."""
    if data.isascii():
        return True
    array = np.frombuffer(data, np.uint8)
    marks = _rare(data, 0xEF, 2)
    if ((array[marks + 1] == 0xBF) & (array[marks + 2] == 0xBD)).any():
        return False
    leads = _rare(data, 0xC3, 2)  # U+00C0 to U+00FF: a lead is one of U+00C2 to U+00F4
    second = array[leads + 1]
    return not ((second >= 0x82) & (second <= 0xB4) & _BEHIND[array[leads + 2]]).any()


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


def _rare(data: bytes, byte: int, behind: int) -> npt.NDArray[np.int64]:
    """Offsets of a byte that few texts hold, where at least ``behind`` bytes follow.

    As long as it is rare, it is looked for from one to the next, which is several times faster than to compare all.
    """
    end, find = len(data) - behind, data.find
    places: list[int] = []
    at = find(byte, 0, end)
    for _ in range(len(data) >> 10):
        if at < 0:
            break
        places.append(at)
        at = find(byte, at + 1, end)
    if at < 0:
        return np.array(places, np.int64)
    return np.flatnonzero(np.frombuffer(data, np.uint8)[:end] == byte)
