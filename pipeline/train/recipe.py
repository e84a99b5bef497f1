"""A recipe: everything a training job is told, in one YAML file.

Unknown keys are refused with the nearest known one.
"""

from __future__ import annotations

import difflib
import importlib.resources
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pipeline.errors import SchemaError

TASKS = ("token_classification", "causal_lm", "text_classification")
CHOICES = {
    "task": TASKS,
    "precision": ("bf16", "fp32"),
    "weights": ("float32", "bfloat16"),
    "attention": ("auto", "eager", "sdpa", "flash_attention_2"),
    "schedule": ("linear", "cosine", "constant"),
    "bits": (None, 4),
}


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which model: a folder, a hub id at a commit, or a config with random weights."""

    path: str | None = None
    hub: str | None = None
    revision: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    weights: str = "float32"
    attention: str = "auto"
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters beside frozen weights."""

    rank: int = 16
    alpha: float = 32
    dropout: float = 0.0
    modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")


@dataclass(frozen=True, slots=True)
class BatchSize:
    """Size of micro-batches; see ``pipeline.train.batches.Budget``."""

    tokens: int = 16384
    samples: int = 64
    micro_batches: int = 1
    multiple: int = 64
    pad_to_longest: bool = False


@dataclass(frozen=True, slots=True)
class Optimizer:
    """AdamW and its schedule."""

    rate: float = 5e-5
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 1.0
    schedule: str = "linear"
    warmup: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """How long, and what is kept."""

    steps: int | None = None
    epochs: int = 1
    seed: int = 0
    log_every: int = 10
    save_every: int = 500
    keep: int = 2


@dataclass(frozen=True, slots=True)
class Recipe:
    """A whole training job."""

    name: str
    task: str
    model: ModelChoice = ModelChoice()
    lora: Lora | None = None
    precision: str = "bf16"
    checkpointing: bool = False
    batch: BatchSize = BatchSize()
    optimizer: Optimizer = Optimizer()
    run: Run = Run()

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return asdict(self)


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
        SchemaError: no such recipe, or a key or value that cannot be (exit 2).
    """
    import yaml

    text = _text(name)
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise SchemaError(f"the recipe is no YAML{place}", where=name) from None
    if not isinstance(value, dict):
        raise SchemaError("the recipe is no mapping", where=name)
    for key, change in (changes or {}).items():
        *sections, last = key.split(".")
        at = value
        for section in sections:
            at[section] = dict(at.get(section) or {})
            at = at[section]
        at[last] = change
    return recipe_of(value, name)


def recipe_of(value: Mapping[str, Any], name: str) -> Recipe:
    """A recipe of plain values, strictly; ``name`` is for messages."""
    recipe: Recipe = _build(Recipe, value, name, "")
    return recipe


def _text(name: str) -> str:
    if not name.endswith((".yaml", ".yml")):
        if name in packaged():
            return (importlib.resources.files("pipeline.train.recipes") / f"{name}.yaml").read_text("utf-8")
        near = difflib.get_close_matches(name, packaged(), 1)
        raise SchemaError(
            "no such recipe", where=name, expected="one of " + ", ".join(packaged()) + ", or a .yaml file",
            remedy=f"did you mean {near[0]}?" if near else "",
        )  # fmt: skip
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError("the recipe cannot be read", where=name, found=type(error).__name__) from None


def _build(kind: Any, value: Any, name: str, path: str) -> Any:
    """A dataclass of a mapping, strictly: unknown, missing and ill-typed keys are refused."""
    if not isinstance(value, Mapping):
        raise SchemaError(
            "not a section", where=f"{name}: {path}", found=type(value).__name__, expected="a mapping"
        )
    known = {f.name: f for f in fields(kind)}
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            raise SchemaError(
                "unknown key", where=f"{name}: {_join(path, str(key))}", expected="one of " + ", ".join(known),
                remedy=f"did you mean {near[0]}?" if near else "",
            )  # fmt: skip
    hints, given = get_type_hints(kind), {}
    for key, fact in known.items():
        if key in value:
            given[key] = _value(hints[key], value[key], name, _join(path, key))
        elif _required(fact):
            raise SchemaError("a key is missing", where=f"{name}: {_join(path, key)}")
    return kind(**given)


def _value(hint: Any, value: Any, name: str, path: str) -> Any:
    kinds = getattr(hint, "__args__", ()) if "|" in str(hint) and not is_dataclass(hint) else (hint,)
    if value is None and type(None) in kinds:
        return None
    (kind,) = [k for k in kinds if k is not type(None)]
    last = path.rpartition(".")[2]
    if last in CHOICES and value not in CHOICES[last]:
        raise _wrong(name, path, value, "one of " + ", ".join(str(choice) for choice in CHOICES[last]))
    if is_dataclass(kind):
        return _build(kind, value, name, path)
    if getattr(kind, "__origin__", None) is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(name, path, value, "a list")
        return tuple(_value(kind.__args__[0], item, name, path) for item in value)
    if getattr(kind, "__origin__", None) is not None:
        if not isinstance(value, dict):
            raise _wrong(name, path, value, "a mapping")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(
            name,
            path,
            value,
            {"int": "a whole number", "float": "a number"}.get(kind.__name__, kind.__name__),
        )
    if kind in (int, float) and last not in ("seed",) and value < 0:
        raise _wrong(name, path, value, "at least 0")
    if last in ("micro_batches", "multiple", "log_every", "save_every", "keep", "rank") and value < 1:
        raise _wrong(name, path, value, "at least 1")
    return value


def _required(fact: Field[Any]) -> bool:
    return fact.default is MISSING and fact.default_factory is MISSING


def _wrong(name: str, path: str, found: Any, expected: str) -> SchemaError:
    return SchemaError(
        "a value that cannot be", where=f"{name}: {path}", found=str(found)[:60], expected=expected
    )


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
