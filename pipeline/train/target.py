"""What a model takes, read from its config: without weights, without a GPU."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.certificate.digest import sha256
from pipeline.errors import RefusedError, SchemaError
from pipeline.models.families import Limits, limits_of

ROPE_MODELS = frozenset(
    {
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "phi",
        "phi3",
        "olmo2",
        "granite",
    }
)
"""Causal models whose positions are computed, not looked up: too long a sequence degrades in silence."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model to be trained.

    Attributes:
        name: folder or hub id, for messages.
        config: its config.json.
        limits: as ``pipeline.models.families`` reads them; ``embedding_rows`` 0 where the config says none.
        labels: label names in order of their ids, empty where the config names none of its own.
        dtype: of the stored weights, "" where not said.
        tokenizer_digest, template_digest: of the tokenizer beside the model, None where there is none.
        rotary: whether positions are computed rather than looked up.
    """

    name: str
    config: Mapping[str, Any]
    limits: Limits
    labels: tuple[str, ...]
    dtype: str
    tokenizer_digest: str | None = None
    template_digest: str | None = None
    rotary: bool = False

    @property
    def model_type(self) -> str:
        """``model_type`` of the config."""
        return str(self.config.get("model_type", ""))


def target_of(model: Any, *, changes: Mapping[str, Any] | None = None) -> Target:
    """What a model takes.

    Args:
        model: a folder with config.json, a config.json, a config as a mapping, a transformers config, or a model (of
            a model the embedding matrix itself is counted, which a config may misstate after a resize).
        changes: values that take the place of the config's.

    Raises:
        RefusedError: there is no config, or it cannot be read.
    """
    if isinstance(model, str | os.PathLike):
        return _of_folder(Path(model), changes or {})
    rows = None
    if callable(getattr(model, "get_input_embeddings", None)):
        rows = _embedding_rows(model)
        model = model.config
    if isinstance(model, Mapping):
        return _target("config", {**model, **(changes or {})}, rows)
    if hasattr(model, "to_dict"):
        name = str(getattr(model, "_name_or_path", "") or type(model).__name__)
        return _target(name, {**model.to_dict(), **(changes or {})}, rows, len(model.id2label))
    raise RefusedError(
        "no model to compare with", found=type(model).__name__, expected="a folder, config or model"
    )


def _of_folder(path: Path, changes: Mapping[str, Any]) -> Target:
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RefusedError(
            "the model's config.json cannot be read", where=str(file), found=type(error).__name__,
            expected="a folder with config.json", remedy="name the model's folder",
        ) from None  # fmt: skip
    if not isinstance(config, dict):
        raise RefusedError("the model's config.json is no JSON object", where=str(file))
    tokenizer, template = _tokenizer_digests(file.parent)
    return _target(str(path), {**config, **changes}, None, None, tokenizer, template)


def _target(
    name: str,
    config: dict[str, Any],
    rows: int | None,
    num_labels: int | None = None,
    tokenizer: str | None = None,
    template: str | None = None,
) -> Target:
    text = config.get("text_config")
    inner = {**config, **text} if isinstance(text, dict) else config
    labels = _names(inner)
    model_type = str(inner.get("model_type", ""))
    try:
        limits = _limits(inner, rows, (_count(inner) if num_labels is None else num_labels) or None)
    except SchemaError as error:
        raise RefusedError(error.what, where=name, found=error.found, expected=error.expected) from None
    dtype = inner.get("dtype") or inner.get("torch_dtype") or ""
    return Target(
        name=name,
        config=inner,
        limits=limits,
        labels=labels,
        dtype=str(dtype).removeprefix("torch."),
        tokenizer_digest=tokenizer,
        template_digest=template,
        rotary=model_type in ROPE_MODELS or "rope_theta" in inner or "rope_parameters" in inner,
    )


def _limits(config: dict[str, Any], rows: int | None, num_labels: int | None) -> Limits:
    """The family table's reading of a config."""
    plain = {key: value for key, value in config.items() if key not in ("id2label", "label2id", "num_labels")}
    pad = plain.get("pad_token_id")
    if isinstance(pad, int) and pad < 0:
        del plain["pad_token_id"]  # -1 stands for none in some configs
    return limits_of(plain, None, rows, None, None, num_labels)


def _names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Label names, empty where they are the placeholders that transformers makes."""
    names = config.get("id2label")
    if not isinstance(names, Mapping) or not names:
        return ()
    ordered = [str(name) for _, name in sorted(names.items(), key=lambda item: int(item[0]))]
    return () if ordered == [f"LABEL_{i}" for i in range(len(ordered))] else tuple(ordered)


def _count(config: Mapping[str, Any]) -> int | None:
    """Labels of a model in a folder; a base model's two placeholders stand for none."""
    names = config.get("id2label") or ()
    return len(names) if _names(config) or len(names) != 2 else None


def _embedding_rows(model: Any) -> int | None:
    """Rows of the input embedding as it stands (sharded or quantized ones know their number as well)."""
    embedding = model.get_input_embeddings()
    count = getattr(embedding, "num_embeddings", None)
    return int(count) if count else None


def _tokenizer_digests(folder: Path) -> tuple[str | None, str | None]:
    """Digests of the tokenizer and chat template beside a model, as certificates state them."""
    if not (folder / "tokenizer.json").is_file():
        return None, None
    from pipeline.errors import TokenizerError
    from pipeline.models.fingerprint import canonical_digest
    from pipeline.models.tokenizer_files import read_folder

    try:
        files = read_folder(folder, folder.name)
    except TokenizerError as error:
        raise RefusedError(
            error.what, where=str(folder), found=error.found, expected=error.expected
        ) from None
    template = sha256(files.chat_template.encode()) if files.chat_template else None
    return canonical_digest(files.state), template
