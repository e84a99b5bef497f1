"""Two digests that bind a certificate to its tokenizer: one of its definition, one of the ids that it gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

PROBE_TEXTS: tuple[str, ...] = (
    "",
    " ",
    "  two  spaces  ",
    "\n",
    "\n\n\n",
    "\t\ttabs",
    "trailing space ",
    "line one\nline two\r\nline three\r",
    "The quick brown fox jumps over the lazy dog.",
    "I'll say it's 3.14159, isn't it? We've DON'T'd.",
    "UPPER lower MiXeD camelCase snake_case kebab-case",
    "1234567890 1,234,567.89 2024-01-31T09:30:00Z 12:30",
    "https://example.org/a/b?c=d&e=f#g user@example.org",
    "def f(x):\n    return [x ** 2 for _ in range(10)]\n",
    '{"name": "add", "arguments": {"a": 1, "b": [true, null]}}',
    "Größe, Straße, Ärzte, Öl, übel",
    "café naïve façade coöperate",
    "cafe\u0301 nai\u0308ve (decomposed)",
    "Ελληνικά και русский текст",
    "日本語のテキスト、句読点。",
    "中文文本没有空格",
    "한국어 텍스트",
    "العربية من اليمين",
    "हिन्दी पाठ",
    "emoji 😀 👩‍👩‍👧 🇩🇪 ❤️",
    "math ∑∫√∞ ≤ ≥ ½ ² ₂ ﬁ ﬂ",
    "zero\u200bwidth\u00a0nbsp\u2028line\ufeffbom",
    "control \x01\x02\x1f\x7f",
    "\U0001f9ff\U00020000\U000e0041",
    "-----=====*****#####",
    "a" * 100,
    "ab" * 64,
    "0" * 64,
    " " * 40,
    "<s> </s> <pad> [CLS] [SEP] <|eot_id|> <|im_end|>",
    "mg/dl 5%–10 % „Zitat“ ‚so‘ 20 °C §3 €5",
)
"""The texts of the probe digest: spaces, contractions, digits, scripts, decomposed and rare code points."""


def canonical_digest(state: dict[str, Any]) -> str:
    """The sha256 of a parsed tokenizer.json with sorted keys and with null for ``truncation`` and ``padding``.

    A call of the library that truncates or pads writes both into the file, so they do not count.
    """
    known = {**state, "truncation": None, "padding": None}
    text = json.dumps(known, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def probe_digest(
    encode: Callable[[Sequence[str]], tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]],
) -> str:
    """The sha256 of the ids of the probe texts; it changes when the library tokenizes them in another way."""
    ids, lengths = encode(PROBE_TEXTS)
    body = lengths.astype("<i8").tobytes() + ids.astype("<i4").tobytes()
    return hashlib.sha256(body).hexdigest()
