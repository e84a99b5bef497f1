"""A recipe: everything a training job is told, in one YAML file.

Unknown keys are refused with the nearest known one, values of another type or out of range are refused too.
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
)
from pydantic import Strict as StrictType

from pipeline.errors import SchemaError
from pipeline.schema.columns import Strict

Share = Annotated[float, Field(ge=0, le=1)]
Beta = Annotated[float, Field(ge=0, lt=1)]
AsList = StrictType(False)
"""On a tuple: YAML writes it as a list. The items stay strict."""


class Section(Strict):
    """A mapping in a recipe."""

    model_config = ConfigDict(allow_inf_nan=False)


class ModelChoice(Section):
    """Which model: a folder, a hub id at a commit, or a config with random weights."""

    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    config: Mapping[str, Any] = {}
    weights: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2"] = "auto"
    bits: Literal[4] | None = None


class Lora(Section):
    """Low-rank adapters beside frozen weights."""

    rank: PositiveInt = 16
    alpha: NonNegativeFloat = 32
    dropout: Share = 0.0
    modules: Annotated[tuple[str, ...], AsList, Field(min_length=1)] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
    )


class BatchSize(Section):
    """Size of micro-batches; see ``pipeline.train.batches.Budget``. ``tokens: 0``: ``samples`` decides."""

    tokens: NonNegativeInt = 16384
    samples: PositiveInt = 64
    micro_batches: PositiveInt = 1
    multiple: PositiveInt = 64
    pad_to_longest: bool = False


class Optimizer(Section):
    """AdamW and its schedule."""

    rate: NonNegativeFloat = 5e-5
    betas: Annotated[tuple[Beta, Beta], AsList] = (0.9, 0.999)
    epsilon: NonNegativeFloat = 1e-8
    weight_decay: NonNegativeFloat = 0.0
    clip: NonNegativeFloat = 1.0
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup: Share = 0.0


class Run(Section):
    """How long, and what is kept."""

    steps: PositiveInt | None = None
    epochs: PositiveInt = 1
    seed: int = 0
    log_every: PositiveInt = 10
    save_every: PositiveInt = 500
    keep: PositiveInt = 2


class Recipe(Section):
    """A whole training job."""

    name: str
    task: Literal["token_classification", "causal_lm", "text_classification"]
    model: ModelChoice = ModelChoice()
    lora: Lora | None = None
    precision: Literal["bf16", "fp32"] = "bf16"
    checkpointing: bool = False
    batch: BatchSize = BatchSize()
    optimizer: Optimizer = Optimizer()
    run: Run = Run()

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return self.model_dump()


class _Loader(yaml.SafeLoader):
    """Plain YAML in which ``1e-4`` is a number: YAML 1.1 asks for a point before the exponent, no reader does."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def packaged() -> tuple[str, ...]:
    """Names of the recipes that come with the program."""
    folder = importlib.resources.files("pipeline.train.recipes")
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def load_recipe(name: str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A packaged recipe by its name, or a file.

    Args:
        name: of a packaged recipe, or a path that ends in .yaml or .yml.
        changes: values by dotted key (``{"run.steps": 100}``) that take the place of the file's.

    Raises:
        SchemaError: no such recipe, or keys or values that cannot be; each is named (exit 2).
    """
    value = _parsed(_text(name), name)
    if not isinstance(value, dict):
        raise SchemaError("the recipe is no mapping", where=name)
    for key, change in (changes or {}).items():
        *sections, last = key.split(".")
        at = value
        for section in sections:
            inner = at.get(section)
            at[section] = dict(inner) if isinstance(inner, Mapping) else {}
            at = at[section]
        at[last] = change
    return recipe_of(value, name)


def recipe_of(value: Mapping[str, Any], name: str) -> Recipe:
    """A recipe of plain values, strictly; ``name`` is for messages.

    Raises:
        SchemaError: keys or values that cannot be; each is named.
    """
    try:
        return Recipe.model_validate(value)
    except ValidationError as error:
        found = list(_mistakes(error))
        raise SchemaError(
            f"{len(found)} mistake{'s' if len(found) > 1 else ''} in the recipe\n"
            + "\n".join(f"  {text}" for text in found),
            where=name,
            remedy="correct the file, or the value given with --set",
        ) from None


def changes_of(items: Sequence[str]) -> dict[str, Any]:
    """Values by dotted key of ``key=value`` texts, as ``--set`` takes them; values are written as in YAML.

    Raises:
        SchemaError: a text has no ``=``, or its value is no YAML.
    """
    changes = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise SchemaError("--set takes key=value", found=item[:60], expected="e.g. run.steps=100")
        changes[key] = _parsed(value, f"--set {key}")
    return changes


def _parsed(text: str, where: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise SchemaError(f"no YAML{place}", where=where) from None


def _text(name: str) -> str:
    if not name.endswith((".yaml", ".yml")):
        if name in packaged():
            return (importlib.resources.files("pipeline.train.recipes") / f"{name}.yaml").read_text("utf-8")
        near = difflib.get_close_matches(name, packaged(), 1)
        raise SchemaError(
            "no such recipe",
            where=name,
            expected="one of " + ", ".join(packaged()) + ", or a .yaml file",
            remedy=f"did you mean {near[0]}?" if near else "",
        )
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError("the recipe cannot be read", where=name, found=type(error).__name__) from None


def _mistakes(error: ValidationError) -> Iterator[str]:
    """Key and words of each mistake that pydantic names."""
    for item in error.errors(include_url=False):
        key = ".".join(str(part) for part in item["loc"]) or "recipe"
        if item["type"] == "extra_forbidden":
            known = _keys(item["loc"][:-1])
            near = difflib.get_close_matches(str(item["loc"][-1]), known, n=1, cutoff=0.5)
            yield f"{key}: unknown key; " + (
                f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
            )
        elif item["type"] == "missing":
            yield f"{key}: is missing"
        else:
            value = item["input"]
            shown = (
                repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
            )
            yield f"{key}: {item['msg'][0].lower()}{item['msg'][1:]} (found {shown[:60]})"


def _keys(place: tuple[str | int, ...]) -> list[str]:
    """Keys known in a section of a recipe."""
    section: type[BaseModel] = Recipe
    for part in place:
        annotation = section.model_fields[str(part)].annotation
        kinds = get_args(annotation) or (annotation,)
        section = next(k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel))
    return list(section.model_fields)
