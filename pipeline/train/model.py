"""Make the model of a recipe for a certified data set: its labels, adapters, dtype and checkpointing."""

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


def config_of(recipe: Recipe, certified: CertifiedSet) -> dict[str, Any]:
    """The config of the model as config_object values, without loading weights.

    Raises:
        SchemaError: the recipe names no model.
        RefusedError: the config cannot be read.
    """
    choice, config = recipe.model, {}
    if choice.path is not None:
        file = Path(choice.path)
        file = file / "config.json" if file.is_dir() else file
        try:
            config = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise RefusedError(
                "the model's config.json cannot be read",
                where=str(file),
                found=type(error).__name__,
                remedy="name the model's folder with --model",
            ) from None
    elif choice.hub is not None:
        config = _hub_config(recipe)
    elif "model_type" not in choice.config:
        raise SchemaError(
            "the recipe names no model",
            where=recipe.name,
            expected="`model: path:`, `hub:` or a whole `config:`",
            remedy="give --model FOLDER",
        )
    return {**config, **choice.config, **_label_names(recipe, certified)}


def build(
    recipe: Recipe, certified: CertifiedSet, *, random_weights: bool, device: torch.device
) -> torch.nn.Module:
    """Make the model on its device.

    Args:
        recipe: names the model and its options.
        certified: the data set, which gives the label names.
        random_weights: whether the model starts from its config with random weights.
        device: device of the weights; random weights are made there, without the CPU.
    """
    import transformers

    choice, config = recipe.model, config_of(recipe, certified)
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[choice.weights]
    kind = getattr(transformers, CLASSES[recipe.task])
    options: dict[str, Any] = {"dtype": dtype}
    if choice.attention != "auto":
        options["attn_implementation"] = choice.attention
    torch.manual_seed(recipe.run.seed)
    if random_weights or (choice.path is None and choice.hub is None):
        config_object = _config_object(config)
        with device:
            model = kind.from_config(config_object, **options)
    else:
        if choice.bits == 4:
            options["quantization_config"] = _four_bits()
            options["device_map"] = {"": device}
        name, revision = choice.path or choice.hub, choice.revision if choice.path is None else None
        changes = {**choice.config, **_label_names(recipe, certified)}
        model = kind.from_pretrained(name, revision=revision, **changes, **options)
    model.config.use_cache = False
    model = _with_adapters(model, recipe)
    if recipe.checkpointing:
        # transformers 5.24 renames the method; version 6 removes the old name.
        enable = (
            getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        )
        enable({"use_reentrant": False})
    on_device: torch.nn.Module = model if choice.bits else model.to(device)
    return on_device


def empty_model(recipe: Recipe, config: Mapping[str, Any]) -> torch.nn.Module:
    """The model without storage: shapes and dtypes only."""
    import transformers

    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[recipe.model.weights]
    config_object = _config_object(config)
    with torch.device("meta"):
        model = getattr(transformers, CLASSES[recipe.task]).from_config(config_object, dtype=dtype)
        unquantized = recipe.model.model_copy(update={"bits": None})
        adapted: torch.nn.Module = _with_adapters(model, recipe.model_copy(update={"model": unquantized}))
        return adapted


def _config_object(config: Mapping[str, Any]) -> Any:
    """The config as a transformers object. The import of its model's module happens here, because values that an import
    computes must not land on a device."""
    import transformers

    config_object = transformers.AutoConfig.for_model(**config)
    module = type(config_object).__module__.replace("configuration_", "modeling_")
    with suppress(ModuleNotFoundError):
        importlib.import_module(module)
    return config_object


def _with_adapters(model: Any, recipe: Recipe) -> Any:
    """The model with the low-rank adapters of the recipe, if it has any."""
    if recipe.lora is None:
        return model
    import peft

    if recipe.model.bits:
        model = peft.prepare_model_for_kbit_training(  # type: ignore[no-untyped-call]
            model, use_gradient_checkpointing=False
        )
    lora = peft.LoraConfig(
        r=recipe.lora.rank,
        lora_alpha=int(recipe.lora.alpha),
        lora_dropout=recipe.lora.dropout,
        target_modules=list(recipe.lora.modules),
        task_type="CAUSAL_LM" if recipe.task == "causal_lm" else "TOKEN_CLS",
    )
    with warnings.catch_warnings():
        # peft 0.21 uses the old name of a property of transformers 5.24.
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(model, lora)


def _label_names(recipe: Recipe, certified: CertifiedSet) -> Mapping[str, Any]:
    if recipe.task == "causal_lm":
        return {}
    names = certified.labels
    if not names:
        path = "labels[]" if certified.kind == "layout" else "labels"
        names = tuple(str(i) for i in range((certified.number(path, "maximum") or 0) + 1))
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


def _four_bits() -> Any:
    import transformers

    return transformers.BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def _hub_config(recipe: Recipe) -> dict[str, Any]:
    choice = recipe.model
    if not choice.revision:
        raise SchemaError(
            "a hub id needs a pinned revision", where=f"{recipe.name}: model", expected="a commit hash"
        )
    import transformers

    config = transformers.AutoConfig.from_pretrained(str(choice.hub), revision=choice.revision)
    return {name: value for name, value in config.to_dict().items() if name not in ("id2label", "label2id")}
