"""Checks of text: bytes that are not UTF-8, lone surrogates, NUL, U+FFFD, and doubly encoded text (mojibake).

Doubly encoded text is UTF-8 that some program decoded as Windows-1252 or Latin-1: "cafÃ©" for "café". It has the
character of a UTF-8 lead byte (Â Ã â ð …) followed by those of continuation bytes. A run of such characters counts as
mojibake only if its bytes are valid UTF-8 of characters that such accidents affect: Latin letters, punctuation,
currency signs, emoji.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl


# UTF-8


def is_utf8(data: bytes | memoryview) -> bool:
    """Whether the bytes are valid UTF-8 (strict: no surrogates, no overlong forms).

    Arrow's validator is forty times faster than decoding to a Python string.
    """
    if isinstance(data, bytes) and data.isascii():
        return True
    offsets = pa.py_buffer(np.array([0, len(data)], np.int64))
    try:
        pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def unfinished_bytes(data: bytes | bytearray) -> int:
    """Number of bytes at the end that begin a UTF-8 character and do not complete it."""
    for length in range(1, min(4, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if size > length else 0
        if byte < 0x80:
            return 0
    return 0


# NUL, U+FFFD and lone surrogates

REPLACEMENT = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")


_NEXT_LEADS = np.zeros(256, np.bool_)
_NEXT_LEADS[[0xC2, 0xC5, 0xC6, 0xCB, 0xE2]] = True
"""First bytes of the characters that may follow the first character of a doubly encoded one."""
_SPOILING_ESCAPES = re.compile(rb"\\u(?:0000|[fF]{3}[dD]|00[cCdDeEfF])")


def is_clean(data: bytes, *, json: bool = False) -> bool:
    """Whether UTF-8 bytes prove that no text in them holds NUL, U+FFFD or a doubly encoded character.

    One cheap pass over a block that saves a check of each text; False proves nothing. ``json``: check escapes too.
    """
    if b"\0" in data:
        return False
    array = np.frombuffer(data, np.uint8)
    if json:
        escapes = _find_byte(data, ord("\\"), 1) + 1
        if (array[escapes] == ord("u")).any() and _SPOILING_ESCAPES.search(data):
            return False
    return is_encoded_once(data)


def is_encoded_once(data: bytes) -> bool:
    """Whether UTF-8 bytes prove that no text in them holds U+FFFD or a doubly encoded character, escapes aside."""
    if data.isascii():
        return True
    array = np.frombuffer(data, np.uint8)
    marks = _find_byte(data, 0xEF, 2)
    if ((array[marks + 1] == 0xBF) & (array[marks + 2] == 0xBD)).any():
        return False
    leads = _find_byte(data, 0xC3, 2)  # U+00C0 to U+00FF: a lead is one of U+00C2 to U+00F4
    second = array[leads + 1]
    return not ((second >= 0x82) & (second <= 0xB4) & _NEXT_LEADS[array[leads + 2]]).any()


def is_invalid(texts: pl.Series) -> pl.Series:
    """Boolean: texts that hold NUL or U+FFFD (Arrow cannot hold lone surrogates: see ``without_surrogates``)."""
    return texts.str.contains_any(["\0", REPLACEMENT]).fill_null(False)


def describe_invalid(text: str) -> str:
    """What makes a text invalid, as findings show it."""
    found = [name for character, name in (("\0", "NUL"), (REPLACEMENT, "U+FFFD")) if character in text]
    if match := _SURROGATE.search(text):
        found.insert(0, f"the lone surrogate \\u{ord(match[0]):04x}")
    return " and ".join(found)


def has_surrogate(text: str) -> bool:
    """Whether a Python string holds a lone surrogate."""
    return _SURROGATE.search(text) is not None


def without_surrogates(text: str) -> str:
    """The text with U+FFFD in place of each lone surrogate."""
    return _SURROGATE.sub(REPLACEMENT, text)


def _find_byte(data: bytes, byte: int, following: int) -> npt.NDArray[np.int64]:
    """Offsets of a rare byte that at least ``following`` bytes follow: int64.

    While the byte is rare, ``find`` jumps from one to the next, which is several times faster than comparing all bytes.
    """
    end, find = len(data) - following, data.find
    offsets: list[int] = []
    found = find(byte, 0, end)
    for _ in range(len(data) >> 10):
        if found < 0:
            break
        offsets.append(found)
        found = find(byte, found + 1, end)
    if found < 0:
        return np.array(offsets, np.int64)
    return np.flatnonzero(np.frombuffer(data, np.uint8)[:end] == byte)


# Doubly encoded text: found by its shape, proven by decoding it back


_UNDEFINED = {0x81: "\x81", 0x8D: "\x8d", 0x8F: "\x8f", 0x90: "\x90", 0x9D: "\x9d"}
"""Bytes that Windows-1252 leaves undefined; decoders give control characters for them."""
_CP1252_OF = {byte: _UNDEFINED.get(byte) or bytes([byte]).decode("cp1252") for byte in range(0x80, 0xC0)}
_BYTE_OF = {char: byte for byte, char in _CP1252_OF.items()} | {chr(b): b for b in range(0x80, 0x100)}

_CONTINUATION = (
    "[" + "".join(re.escape(c) for c in sorted({*_CP1252_OF.values(), *map(chr, range(0x80, 0xC0))})) + "]"
)
DOUBLE_ENCODED = (
    f"[\u00c2-\u00df]{_CONTINUATION}|[\u00e0-\u00ef]{_CONTINUATION}{{2}}|[\u00f0-\u00f4]{_CONTINUATION}{{3}}"
)
"""Regular expression of one doubly encoded character."""

_DOUBLE_ENCODED_RUN = re.compile(f"(?:{DOUBLE_ENCODED})+")
_PLAUSIBLE = re.compile(
    "[\u00a0-\u017f\u0192\u02c6\u02dc\u2010-\u203a\u20ac\u2122\u2190-\u2193\u2600-\u27bf\U0001f000-\U0001faff\ufe0f]+"
)


def repair_mojibake(text: str) -> tuple[str, str] | None:
    """The repaired text and the first doubly encoded run; None if the text has no proven one."""
    first = ""

    def decode_run(match: re.Match[str]) -> str:
        nonlocal first
        run = match.group()
        try:
            decoded = bytes(_BYTE_OF[c] for c in run).decode("utf-8")
        except (KeyError, UnicodeDecodeError):
            return run
        if not _PLAUSIBLE.fullmatch(decoded):
            return run
        first = first or run
        return decoded

    fixed = _DOUBLE_ENCODED_RUN.sub(decode_run, text)
    return (fixed, first) if first else None
