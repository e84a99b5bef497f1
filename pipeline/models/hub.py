"""A tokenizer by hub id and pinned revision, loaded through transformers."""

from __future__ import annotations

import json

from pipeline.errors import TokenizerError
from pipeline.models.tokenizer_files import ROLES, TokenizerFiles, assemble


def read_hub(hub: str, revision: str) -> TokenizerFiles:
    """Load it from the hub or its local cache. Raises TokenizerError when it cannot be had."""
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(hub, revision=revision, trust_remote_code=False)
    except Exception as error:
        raise TokenizerError(
            "the tokenizer cannot be loaded from the hub",
            where=f"{hub}@{revision}",
            found=type(error).__name__,
            expected="a public tokenizer, or one in the local cache",
            remedy="check id and revision and go online once; or save the tokenizer to a folder "
            "(AutoTokenizer.from_pretrained(...).save_pretrained(folder)) and name it under `tokenizer: path:`",
        ) from None
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise TokenizerError(
            "the tokenizer has no fast implementation",
            where=f"{hub}@{revision}",
            found=type(loaded).__name__,
            expected="a fast tokenizer (tokenizer.json)",
        )
    config: dict[str, object] = {
        "tokenizer_class": type(loaded).__name__,
        "model_max_length": loaded.model_max_length,
        "chat_template": loaded.chat_template,
    }
    for role in ROLES:
        config[f"{role}_token"] = getattr(loaded, f"{role}_token", None)
    return assemble(hub, json.loads(backend.to_str()), config, {}, None)
