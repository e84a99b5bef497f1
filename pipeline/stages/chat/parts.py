"""Contents written as lists of parts: text parts are joined, anything else cannot be trained in a text set."""

from __future__ import annotations

from typing import Any

import msgspec

TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
"""Types of text parts in OpenAI's and LLaMA-Factory's lists."""


def joined(written: str) -> tuple[str | None, int, str]:
    """The text of a JSON list of parts, the number of parts, and what is wrong with it ("" for nothing).

    A part that is no text is named by its type (``image_url``); a list that is no list of parts by ``a list``.
    """
    try:
        parts = msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None, 0, "a list"
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return None, 0, "a list"
    texts = []
    for part in parts:
        kind = str(part.get("type"))
        text = _text(part)
        if kind not in TEXT_TYPES:
            return None, len(parts), kind
        if text is None:
            return None, len(parts), "a list"
        texts.append(text)
    return "".join(texts), len(parts), ""


def _text(part: dict[str, Any]) -> str | None:
    value = part.get("text", part.get("value"))
    return value if isinstance(value, str) else None
