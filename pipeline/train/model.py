"""The model of a recipe, made for a certified data set: its labels, adapters, dtype and memory savings."""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import RefusedError, SchemaError
from pipeline.train.recipe import Recipe
from pipeline.train.rows import CertifiedSet

CLASSES = {
    "token_classification": "AutoModelForTokenClassification",
    "text_classification": "AutoModelForSequenceClassification",
    "causal_lm": "AutoModelForCausalLM",
}


def config_of(recipe: Recipe, facts: CertifiedSet) -> dict[str, Any]:
    """The config that the model will have, as plain values; nothing is loaded.

    Raises:
        SchemaError: the recipe names no model.
        RefusedError: its config cannot be read.
    """
    choice, config = recipe.model, {}
    if choice.path is not None:
        file = Path(choice.path)
        file = file / "config.json" if file.is_dir() else file
        try:
            config = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RefusedError(
                "the model's config.json cannot be read", where=str(file), found=type(error).__name__,
                remedy="name the model's folder with --model",
            ) from None  # fmt: skip
    elif choice.hub is not None:
        config = _hub_config(recipe)
    elif "model_type" not in choice.config:
        raise SchemaError(
            "the recipe names no model", where=recipe.name, expected="`model: path:`, `hub:` or a whole `config:`",
            remedy="give --model FOLDER",
        )  # fmt: skip
    return {**config, **choice.config, **_label_names(recipe, facts)}


def build(
    recipe: Recipe, facts: CertifiedSet, *, random_weights: bool, device: torch.device
) -> torch.nn.Module:
    """Make the model on its device.

    Args:
        recipe: what is asked for.
        facts: gives the label names.
        random_weights: whether only the config is taken.
        device: where it is made; weights of a large model never pass through the CPU when they are random.
    """
    import transformers

    choice, config = recipe.model, config_of(recipe, facts)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[choice.weights]
    kind = getattr(transformers, CLASSES[recipe.task])
    how: dict[str, Any] = {"dtype": dtype}
    if choice.attention != "auto":
        how["attn_implementation"] = choice.attention
    torch.manual_seed(recipe.run.seed)
    if random_weights or (choice.path is None and choice.hub is None):
        plain = _plain(config)
        with device:
            model = kind.from_config(plain, **how)
    else:
        if choice.bits == 4:
            how["quantization_config"] = _four_bits()
            how["device_map"] = {"": device}
        name, revision = choice.path or choice.hub, choice.revision if choice.path is None else None
        changes = {**choice.config, **_label_names(recipe, facts)}
        model = kind.from_pretrained(name, revision=revision, **changes, **how)
    model.config.use_cache = False
    model = _adapted(model, recipe)
    if recipe.checkpointing:
        # Renamed in transformers 5.24; the old name goes away in version 6.
        enable = (
            getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        )
        enable({"use_reentrant": False})
    placed: torch.nn.Module = model if choice.bits else model.to(device)
    return placed


def skeleton(recipe: Recipe, config: Mapping[str, Any]) -> torch.nn.Module:
    """The model without storage: shapes and dtypes alone."""
    import transformers

    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[recipe.model.weights]
    plain = _plain(config)
    with torch.device("meta"):
        model = getattr(transformers, CLASSES[recipe.task]).from_config(plain, dtype=dtype)
        unquantized = recipe.model.model_copy(update={"bits": None})
        adapted: torch.nn.Module = _adapted(model, recipe.model_copy(update={"model": unquantized}))
        return adapted


def _plain(config: Mapping[str, Any]) -> Any:
    """The config as an object, and its model's module imported: what an import computes must not land on a device."""
    import transformers

    plain = transformers.AutoConfig.for_model(**config)
    module = type(plain).__module__.replace("configuration_", "modeling_")
    with suppress(ModuleNotFoundError):
        importlib.import_module(module)
    return plain


def _adapted(model: Any, recipe: Recipe) -> Any:
    """The model with low-rank adapters, where the recipe has some."""
    if recipe.lora is None:
        return model
    import peft

    if recipe.model.bits:
        model = peft.prepare_model_for_kbit_training(  # type: ignore[no-untyped-call]
            model, use_gradient_checkpointing=False
        )
    lora = peft.LoraConfig(
        r=recipe.lora.rank, lora_alpha=int(recipe.lora.alpha), lora_dropout=recipe.lora.dropout,
        target_modules=list(recipe.lora.modules), task_type="CAUSAL_LM" if recipe.task == "causal_lm" else "TOKEN_CLS",
    )  # fmt: skip
    with warnings.catch_warnings():
        # peft 0.21 asks transformers 5.24 for a property by its old name.
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(model, lora)


def _label_names(recipe: Recipe, facts: CertifiedSet) -> Mapping[str, Any]:
    if recipe.task == "causal_lm":
        return {}
    names = facts.labels
    if not names:
        path = "labels[]" if facts.kind == "layout" else "labels"
        names = tuple(str(i) for i in range((facts.number(path, "maximum") or 0) + 1))
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


def _four_bits() -> Any:
    import transformers

    return transformers.BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )  # fmt: skip


def _hub_config(recipe: Recipe) -> dict[str, Any]:
    choice = recipe.model
    if not choice.revision:
        raise SchemaError(
            "a hub id needs a pinned revision", where=f"{recipe.name}: model", expected="a commit hash"
        )
    import transformers

    config = transformers.AutoConfig.from_pretrained(str(choice.hub), revision=choice.revision)
    return {name: value for name, value in config.to_dict().items() if name not in ("id2label", "label2id")}
