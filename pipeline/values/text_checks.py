"""Texts that spoil training or a writer: not UTF-8, lone surrogates, NUL, U+FFFD, encoded twice; and byte
search.

UTF-8 bytes that were read as Windows-1252 or Latin-1 leave a lead byte (Â Ã â ð …) with continuation bytes after it.
A run of such characters is mojibake only when it goes back to valid UTF-8, and to characters that such accidents are
made of: Latin letters, punctuation, currency, emoji.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl


# Whether bytes are UTF-8, at memory speed: Arrow's validator is forty times faster than decoding to a Python
# text.


def is_utf8(data: bytes | memoryview) -> bool:
    """Whether the bytes are valid UTF-8 as a whole (strict: no surrogates, no overlong forms)."""
    if isinstance(data, bytes) and data.isascii():
        return True
    borders = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, borders, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def unfinished_bytes(data: bytes | bytearray) -> int:
    """Number of bytes at the end that begin a character and do not finish it."""
    for length in range(1, min(4, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if size > length else 0
        if byte < 0x80:
            return 0
    return 0


# Texts that spoil training or a writer: lone surrogates, NUL, U+FFFD.


REPLACEMENT = "\ufffd"
_LONE = re.compile("[\ud800-\udfff]")


_BEHIND = np.zeros(256, np.bool_)
_BEHIND[[0xC2, 0xC5, 0xC6, 0xCB, 0xE2]] = True
"""First bytes of what stands behind the lead character of a doubly encoded one."""
_ESCAPES = re.compile(rb"\\u(?:0000|[fF]{3}[dD]|00[cCdDeEfF])")


def is_clean(data: bytes, *, json: bool = False) -> bool:
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


def is_invalid(texts: pl.Series) -> pl.Series:
    """Boolean: texts that hold NUL or U+FFFD (Arrow cannot hold a lone surrogate: see ``sound``)."""
    return texts.str.contains_any(["\0", REPLACEMENT]).fill_null(False)


def describe_invalid(text: str) -> str:
    """What makes a text invalid, in words."""
    found = [name for sign, name in (("\0", "NUL"), (REPLACEMENT, "U+FFFD")) if sign in text]
    if match := _LONE.search(text):
        found.insert(0, f"the lone surrogate \\u{ord(match[0]):04x}")
    return " and ".join(found)


def has_surrogate(text: str) -> bool:
    """Whether a Python text holds half of a surrogate pair."""
    return _LONE.search(text) is not None


def without_surrogates(text: str) -> str:
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


# Doubly encoded text ("cafÃ©" for "café"): found by its shape, proven by the way back.


_UNDEFINED = {0x81: "\x81", 0x8D: "\x8d", 0x8F: "\x8f", 0x90: "\x90", 0x9D: "\x9d"}
"""Bytes that Windows-1252 leaves undefined; decoders pass them on as control characters."""
_CP1252 = {byte: _UNDEFINED.get(byte) or bytes([byte]).decode("cp1252") for byte in range(0x80, 0xC0)}
_BYTES = {char: byte for byte, char in _CP1252.items()} | {chr(b): b for b in range(0x80, 0x100)}

_CONTINUATION = (
    "[" + "".join(re.escape(c) for c in sorted({*_CP1252.values(), *map(chr, range(0x80, 0xC0))})) + "]"
)
CANDIDATE = (
    f"[\u00c2-\u00df]{_CONTINUATION}|[\u00e0-\u00ef]{_CONTINUATION}{{2}}|[\u00f0-\u00f4]{_CONTINUATION}{{3}}"
)
"""Regular expression of one doubly encoded character."""

_RUN = re.compile(f"(?:{CANDIDATE})+")
_PLAUSIBLE = re.compile(
    "[\u00a0-\u017f\u0192\u02c6\u02dc\u2010-\u203a\u20ac\u2122\u2190-\u2193\u2600-\u27bf\U0001f000-\U0001faff\ufe0f]+"
)


def mojibake(text: str) -> tuple[str, str] | None:
    """The text set right, and the first damaged run; None when nothing is proven to be damaged."""
    first = ""

    def back(match: re.Match[str]) -> str:
        nonlocal first
        run = match.group()
        try:
            meant = bytes(_BYTES[c] for c in run).decode("utf-8")
        except (KeyError, UnicodeDecodeError):
            return run
        if not _PLAUSIBLE.fullmatch(meant):
            return run
        first = first or run
        return meant

    fixed = _RUN.sub(back, text)
    return (fixed, first) if first else None
