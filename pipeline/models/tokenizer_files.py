"""The files of a tokenizer, from a folder or from a hub id with a pinned revision: tokenizer.json, special tokens, chat
template.

A folder is read without transformers, whose import takes longer than a small run. This module applies the same settings
on top of tokenizer.json as transformers does on loading, so that the ids are equal.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.errors import TokenizerError

ROLES = ("bos", "eos", "pad", "cls", "sep", "unk", "mask")
MAX_TOKENIZER_BYTES = 256 * 2**20
MAX_TEMPLATE_BYTES = 2**20
FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """The parsed files of a tokenizer.

    Attributes:
        name: folder name or hub id.
        kind: the class in the configuration; "" without one.
        state: the parsed tokenizer.json.
        specials: text of the special token of each role of ``ROLES`` that is set.
        added: tokens that only the configuration names, by id: text, and whether it is special.
        chat_template: Jinja source; None without one.
        add_prefix_space: whether each word is encoded as if a space came before it.
        max_length: ``model_max_length``; None when unset or impossibly large.
        as_written: the sections of tokenizer.json that the settings of the configuration change, as in the file.
    """

    name: str
    kind: str
    state: dict[str, Any]
    specials: dict[str, str]
    added: dict[int, tuple[str, bool]] = field(default_factory=dict)
    chat_template: str | None = None
    add_prefix_space: bool = False
    max_length: int | None = None
    as_written: dict[str, Any] = field(default_factory=dict)


def read_folder(folder: Path, name: str) -> TokenizerFiles:
    """Read a folder; raises ``TokenizerError`` where it is missing or holds no valid tokenizer.json."""
    if not folder.is_dir():
        raise TokenizerError(
            "tokenizer folder not found",
            where=name,
            found="no such folder",
            expected="a folder with tokenizer.json",
            remedy="correct `tokenizer: path:` (it is relative to the schema file)",
        )
    state = _load_json(folder / "tokenizer.json", name, MAX_TOKENIZER_BYTES)
    if state is None:
        raise TokenizerError(
            "the tokenizer folder has no tokenizer.json",
            where=name,
            found=", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "an empty folder",
            expected="tokenizer.json",
            remedy="save it with transformers: AutoTokenizer.from_pretrained(...).save_pretrained(folder)",
        )
    if "model" not in state:
        raise TokenizerError("tokenizer.json holds no model", where=name, expected="a fast tokenizer's file")
    config = _load_json(folder / "tokenizer_config.json", name, MAX_TOKENIZER_BYTES) or {}
    special_map = _load_json(folder / "special_tokens_map.json", name, MAX_TEMPLATE_BYTES) or {}
    return combine_files(name, state, config, special_map, _template_file(folder))


def combine_files(
    name: str,
    state: dict[str, Any],
    config: dict[str, Any],
    special_map: dict[str, Any],
    template: str | None,
) -> TokenizerFiles:
    """Combine the files; a template file overrides the template in the configuration."""
    specials: dict[str, str] = {}
    for role in ROLES:
        if text := _token_text(config.get(f"{role}_token", special_map.get(f"{role}_token"))):
            specials[role] = text
    added = {}
    for key, token in (config.get("added_tokens_decoder") or {}).items():
        if isinstance(token, dict) and (text := _token_text(token)):
            added[int(key)] = (text, bool(token.get("special")))
    sections: tuple[str, ...] = ("pre_tokenizer", "normalizer")
    as_written = {key: copy.deepcopy(state[key]) for key in sections if key in state}
    _apply_settings(state, config)
    length = config.get("model_max_length")
    return TokenizerFiles(
        name=name,
        kind=str(config.get("tokenizer_class") or ""),
        state=state,
        specials=specials,
        added=added,
        chat_template=template or _template_of(config),
        add_prefix_space=_prefix_space(state),
        max_length=int(length) if isinstance(length, int | float) and 0 < length < 10**9 else None,
        as_written=as_written,
    )


def _load_json(path: Path, name: str, limit: int) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    if path.stat().st_size > limit:
        raise TokenizerError(
            f"{path.name} is too large", where=name, expected=f"at most {limit // 2**20} MiB"
        )
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise TokenizerError(
            f"{path.name} cannot be read",
            where=name,
            found=type(error).__name__,
            expected="a JSON object",
            remedy="fetch the tokenizer again",
        ) from None
    if not isinstance(value, dict):
        raise TokenizerError(f"{path.name} is no JSON object", where=name)
    return value


def _template_file(folder: Path) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    legacy = _load_json(folder / "chat_template.json", folder.name, MAX_TEMPLATE_BYTES)
    return _template_of(legacy) if legacy else None


def _template_of(config: dict[str, Any]) -> str | None:
    """The template of a configuration: the only one, or the one named "default"."""
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    return template if isinstance(template, str) and template.strip() else None


def _token_text(token: object) -> str | None:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) and token else None


def _apply_settings(state: dict[str, Any], config: dict[str, Any]) -> None:
    """Apply the settings of the configuration that override tokenizer.json, as transformers does on loading."""
    state["truncation"] = state["padding"] = None
    prefix = config.get("add_prefix_space")
    before = state.get("pre_tokenizer")
    if isinstance(prefix, bool) and isinstance(before, dict) and before.get("type") == "ByteLevel":
        before["add_prefix_space"] = prefix
    normalizer = state.get("normalizer")
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        for key, setting in (
            ("do_lower_case", "lowercase"),
            ("strip_accents", "strip_accents"),
            ("tokenize_chinese_chars", "handle_chinese_chars"),
        ):
            if key in config:
                normalizer[setting] = config[key]


def _prefix_space(state: dict[str, Any]) -> bool:
    return any(
        part.get("add_prefix_space") is True
        for part in _pre_tokenizers(state)
        if part.get("type") == "ByteLevel"
    )


def marks_first(state: dict[str, Any]) -> bool:
    """Whether a Metaspace pre-tokenizer marks the first piece of a text only."""
    return any(part.get("prepend_scheme") == "first" for part in _pre_tokenizers(state))


def alter(files: TokenizerFiles, control: frozenset[str], continuing: bool) -> TokenizerFiles:
    """The files with more special tokens, or without the mark of the first piece."""
    state = dict(files.state)
    if control:
        state["added_tokens"] = [
            {**token, "special": True} if token.get("content") in control else token
            for token in state.get("added_tokens", [])
        ]
    if continuing:
        state["pre_tokenizer"] = copy.deepcopy(state["pre_tokenizer"])
        for part in _pre_tokenizers(state):
            if part.get("prepend_scheme") == "first":
                part["prepend_scheme"] = "never"
    added = {i: (text, special or text in control) for i, (text, special) in files.added.items()}
    return replace(files, state=state, added=added)


def _pre_tokenizers(state: dict[str, Any]) -> list[dict[str, Any]]:
    before = state.get("pre_tokenizer")
    return before.get("pretokenizers", [before]) if isinstance(before, dict) else []


def read_hub(hub: str, revision: str) -> TokenizerFiles:
    """Load a tokenizer from the hub or its local cache, through transformers; raises ``TokenizerError`` on failure."""
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
    return combine_files(hub, json.loads(backend.to_str()), config, {}, None)
