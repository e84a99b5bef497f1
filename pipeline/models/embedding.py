"""Rows of a model's embedding matrix, read from its files without loading the model.

Imports the standard library only. The weights win over ``config.json``: after ``resize_token_embeddings`` only they
are sure to be right.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

MAX_HEADER = 100 * 2**20
"""Largest header, as the safetensors format itself limits it."""
NAMES = (
    "embed_tokens.weight",
    "wte.weight",
    "word_embeddings.weight",
    "tok_embeddings.weight",
    "embed_in.weight",
)
"""Ends of the embedding's name: Llama, Qwen, Mistral and Gemma; GPT-2; BERT and LayoutLM; Meta's own; NeoX."""


def embedding_rows(folder: Path) -> int | None:
    """Rows of the embedding matrix in a model folder's safetensors files; None where there is none to be read."""
    index = folder / "model.safetensors.index.json"
    files = [folder / "model.safetensors"]
    if index.is_file():
        weights = _object(index.read_bytes()).get("weight_map", {})
        named = [file for name, file in sorted(weights.items()) if str(name).endswith(NAMES)]
        files = [folder / Path(str(file)).name for file in named]
    for file in files:
        if file.is_file():
            for name, tensor in sorted(_header(file).items()):
                shape = tensor.get("shape") if isinstance(tensor, dict) else None
                if name.endswith(NAMES) and isinstance(shape, list) and len(shape) == 2:
                    return int(shape[0])
    return None


def _header(file: Path) -> dict[str, Any]:
    """The header of a safetensors file: its length in 8 bytes, then JSON."""
    with file.open("rb") as stream:
        head = stream.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        return _object(stream.read(length)) if 0 < length <= MAX_HEADER else {}


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
