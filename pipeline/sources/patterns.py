"""File patterns of a schema: ``*``, ``?`` and ``[…]`` within one folder, ``**`` for any depth."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import PurePosixPath


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression over relative paths with forward slashes, compared in NFC, with case."""
    text = unicodedata.normalize("NFC", pattern).replace("\\", "/").removeprefix("./").strip("/")
    out, at = [], 0
    while at < len(text):
        if text.startswith("**/", at) and (at == 0 or text[at - 1] == "/"):
            out.append("(?:[^/]+/)*")
            at += 3
        elif text.startswith("**", at):
            out.append(".*")
            at += 2
        elif text[at] == "*":
            out.append("[^/]*")
            at += 1
        elif text[at] == "?":
            out.append("[^/]")
            at += 1
        elif (
            text[at] == "[" and (close := text.find("]", at + 2 + (text[at + 1 : at + 2] in ("!", "^")))) > 0
        ):
            inner = text[at + 1 : close].replace("\\", r"\\").replace("[", r"\[")
            inner = "^/" + inner[1:] if inner[0] in "!^" else inner
            out.append(_class(inner))
            at = close + 1
        else:
            out.append(re.escape(text[at]))
            at += 1
    return re.compile("".join(out), re.DOTALL)


def _class(inner: str) -> str:
    """A class of letters; one with a range from high to low holds none, as in the shell."""
    try:
        re.compile(f"[{inner}]")
    except re.error:
        return "(?!)"
    return f"[{inner}]"


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether any of the patterns matches the whole relative path."""
    name = unicodedata.normalize("NFC", path)
    return any(compiled(pattern).fullmatch(name) for pattern in patterns)


def closest(path: str, patterns: Sequence[str]) -> str:
    """The pattern most like the path: same suffix first, then the most letters in common; "" without patterns."""
    suffix = PurePosixPath(path).suffix.lower()

    def likeness(pattern: str) -> tuple[bool, float]:
        same = bool(suffix) and PurePosixPath(pattern).suffix.lower() == suffix
        return same, SequenceMatcher(None, path, pattern, autojunk=False).ratio()

    return max(patterns, key=likeness, default="")
