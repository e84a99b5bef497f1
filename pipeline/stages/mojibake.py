"""Doubly encoded text ("cafÃ©" for "café"): found by its shape, proven by the way back.

UTF-8 bytes that were read as Windows-1252 or Latin-1 leave a lead byte (Â Ã â ð …) with continuation bytes after it.
A run of such characters is mojibake only when it goes back to valid UTF-8, and to characters that such accidents are
made of: Latin letters, punctuation, currency, emoji.
"""

from __future__ import annotations

import re

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
