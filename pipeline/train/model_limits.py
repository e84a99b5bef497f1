"""The limits of a model, read from its config, and whether a data set fits them, by the statistics of its certificate.

No weights, no GPU and no shard are read. Every check yields its faults, so that all are listed at once. Beyond each
limit, training ends with a device-side assert, a CUBLAS error or a NaN, or it silently learns nothing useful
(docs/hazards.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.certificate.digest import sha256
from pipeline.errors import RefusedError, SchemaError
from pipeline.models.families import Limits, limits_of
from pipeline.train.faults import Fault, Weight
from pipeline.train.recipe import Recipe
from pipeline.train.rows import CertifiedSet

# The limits of a model.


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
"""Causal models that compute positions and look none up: a sequence that is too long silently degrades."""


@dataclass(frozen=True, slots=True)
class Target:
    """A model to train.

    Attributes:
        name: folder or hub id, for messages.
        config: content of its config.json.
        limits: as ``pipeline.models.families`` reads them; ``embedding_rows`` is 0 where the config has none.
        labels: label names in the order of their ids; empty where the config has only placeholders.
        dtype: of the stored weights; "" where the config has none.
        tokenizer_digest, template_digest: of the tokenizer in the folder of the model; None without one.
        rotary: whether the model computes positions and looks none up.
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
    """The limits of a model.

    Args:
        model: a folder with config.json, a config.json, a config as a mapping, a transformers config, or a model. For a
            model the rows of the embedding matrix count, because a config may be wrong after a resize.
        changes: values that replace those of the config.

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
            "the model's config.json cannot be read",
            where=str(file),
            found=type(error).__name__,
            expected="a folder with config.json",
            remedy="name the model's folder",
        ) from None
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
    """The limits that ``pipeline.models.families`` reads from a config."""
    plain = {key: value for key, value in config.items() if key not in ("id2label", "label2id", "num_labels")}
    pad = plain.get("pad_token_id")
    if isinstance(pad, int) and pad < 0:
        del plain["pad_token_id"]  # some configs write -1 for none
    return limits_of(plain, None, rows, None, None, num_labels)


def _names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The label names; empty where they are the placeholders of transformers."""
    names = config.get("id2label")
    if not isinstance(names, Mapping) or not names:
        return ()
    ordered = [str(name) for _, name in sorted(names.items(), key=lambda item: int(item[0]))]
    return () if ordered == [f"LABEL_{i}" for i in range(len(ordered))] else tuple(ordered)


def _count(config: Mapping[str, Any]) -> int | None:
    """Number of labels of a model in a folder; None for the two placeholders of a base model."""
    names = config.get("id2label") or ()
    return len(names) if _names(config) or len(names) != 2 else None


def _embedding_rows(model: Any) -> int | None:
    """Number of rows of the input embedding, also of a sharded or quantized one."""
    embedding = model.get_input_embeddings()
    count = getattr(embedding, "num_embeddings", None)
    return int(count) if count else None


def _tokenizer_digests(folder: Path) -> tuple[str | None, str | None]:
    """Digests of the tokenizer and the chat template in the folder of a model, computed as for a certificate."""
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


# Whether a data set fits a model.


TASK_KINDS = {
    "token_classification": ("layout", "tokens"),
    "text_classification": ("table",),
    "causal_lm": ("chat", "tokens", "table"),
}
"""The kinds of data sets for each task of a recipe."""
RESIZE = "use the model's own tokenizer, or resize the embedding (`resize_token_embeddings`) and give the resized model"


def fit_faults(certified: CertifiedSet, target: Target, *, fp16: bool = False) -> list[Fault]:
    """The properties of a data set that exceed or contradict the limits of a model.

    Args:
        certified: the data set.
        target: the model.
        fp16: whether training runs in float16.
    """
    checks = (_embedding, _positions, _boxes, _labels, _family, _pad, _pages, _tokenizer, _finite)
    faults = [fault for check in checks for fault in check(certified, target)]
    return faults + list(_dtype(target, fp16))


def schedule_faults(certified: CertifiedSet, *, world: int, per_rank: int) -> Iterator[Fault]:
    """The fault that some rank gets no full batch.

    Args:
        certified: the data set.
        world: number of ranks.
        per_rank: number of samples of one step on one rank.
    """
    if certified.rows < world * per_rank:
        yield Fault(
            "rows",
            "fewer samples than one step of all ranks takes",
            f"{certified.rows} samples",
            f"at least {world} ranks × {per_rank}",
            "use fewer ranks or smaller batches",
        )


def task_faults(certified: CertifiedSet, recipe: Recipe) -> Iterator[Fault]:
    """The faults of a data set that the task of the recipe cannot learn from."""
    if certified.kind not in TASK_KINDS[recipe.task]:
        yield Fault(
            "task",
            "the recipe's task does not learn from this kind of data",
            f"kind {certified.kind}",
            f"kind {' or '.join(TASK_KINDS[recipe.task])}",
            "choose another recipe",
        )
    elif "labels" not in certified.columns:
        yield Fault("task", "the data set has no labels", remedy="name the label column in the schema")
    if "rejected_input_ids" in certified.columns:
        yield Fault(
            "task",
            "preference pairs",
            "chosen and rejected answers",
            "one answer",
            "train them with a preference trainer; the gate works there as well",
        )


def _embedding(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    rows = target.limits.embedding_rows
    if not rows:
        return
    for column in ("input_ids", "rejected_input_ids"):
        top = certified.number(f"{column}[]", "maximum")
        if top is not None and top >= rows:
            yield Fault(
                "embedding_rows",
                f"token ids in `{column}` beyond the embedding matrix",
                f"id {top}",
                f"at most {rows - 1} ({rows} rows)",
                RESIZE,
            )
    low = certified.number("input_ids[]", "minimum")
    if low is not None and low < 0:
        yield Fault("embedding_rows", "negative token ids", f"id {low}", "at least 0")


def _positions(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    limit, longest = target.limits.max_tokens, certified.number("input_ids", "longest")
    if limit is None or longest is None or longest <= limit:
        return
    packed = "position_ids" in certified.columns
    top = certified.number("position_ids[]", "maximum") if packed else None
    if top is not None and top < limit and target.rotary:
        return  # packed conversations, each short enough
    effect = "answers beyond it degrade in silence" if target.rotary else "a device-side assert"
    yield Fault(
        "positions",
        f"samples longer than the model's positions: {effect}",
        f"{longest} tokens",
        f"at most {limit}",
        f"set `max_tokens: {limit}` in the schema and run the pipeline again, or use a model with more positions",
    )


def _boxes(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    if "bbox" not in certified.columns or target.limits.family is None:
        return
    limits = target.limits
    floats = certified.statistics.get("bbox[][]", {}).get("maximum")
    if isinstance(floats, str) != limits.float_boxes:
        yield Fault(
            "boxes",
            "boxes of another kind than the model reads",
            "floats 0–1" if isinstance(floats, str) else "whole numbers 0–1000",
            "floats 0–1" if limits.float_boxes else "whole numbers 0–1000",
            "name the model's `family` in the schema and run the pipeline again",
        )
        return
    top, low = certified.number("bbox[][]", "maximum"), certified.number("bbox[][]", "minimum")
    bound = min(limits.box_max, (limits.box_rows or 1 << 30) - 1)
    if top is not None and top > bound:
        yield Fault("boxes", "coordinates beyond the 2-D positions", str(top), f"at most {bound:g}")
    if low is not None and low < 0:
        yield Fault("boxes", "negative coordinates", str(low), "at least 0")


def _labels(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    if certified.kind not in ("layout", "table"):
        return
    path = "labels[]" if certified.kind == "layout" else "labels"
    top, count = certified.number(path, "maximum"), target.limits.num_labels
    names = certified.labels
    known = len(names) or (None if top is None else top + 1)
    if certified.kind == "layout" and "labels" not in certified.columns:
        yield Fault("labels", "the data set has no labels", remedy="declare `layout: labels:` in the schema")
    elif count is not None and known is not None and known > count:
        yield Fault(
            "labels",
            "more labels than the classifier: `CUBLAS_STATUS_…` on the GPU",
            f"{known} labels",
            f"at most {count}",
            f"make the model with `num_labels={known}`",
        )
    elif target.labels and names and target.labels[: len(names)] != names:
        first = next(
            i for i, (a, b) in enumerate(zip(names, (*target.labels, *names), strict=False)) if a != b
        )
        yield Fault(
            "labels",
            "the model names its labels otherwise",
            f"label {first} is {names[first]} in the data",
            f"{target.labels[first] if first < len(target.labels) else 'none'} in the model",
            "put `labels: names:` of the schema into the model's order",
        )


def _family(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    made, found = certified.limits.get("family"), target.limits.family
    made = "layoutlmv2" if made == "layoutxlm" else made
    if certified.kind == "layout" and made != found:
        yield Fault(
            "family",
            "made for another model family",
            f"{made}",
            f"{found or target.model_type or 'unknown'}",
            "name the model's `family` in the schema and run the pipeline again",
        )
    if certified.kind == "chat" and found is not None:
        yield Fault("family", "conversations for a document model", certified.kind, target.model_type)


def _pad(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    made, own = certified.limits.get("pad_id"), target.limits.pad_id
    if certified.kind == "layout" and made is not None and own is not None and made != own:
        yield Fault(
            "pad",
            "another pad id: positions count from it",
            f"{made}",
            f"{own}",
            "use the model's own tokenizer in the schema",
        )


def _pages(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    image = target.limits.image
    if certified.kind != "layout" or image is None:
        return
    if "page_id" not in certified.columns:
        if target.limits.family == "layoutlmv2":
            yield Fault(
                "pages",
                "the model needs page images and the data set has none",
                remedy="declare `layout: image:` in the schema",
            )
        return
    if missing := certified.number("page_id", "nulls"):
        yield Fault(
            "pages",
            "samples without a page image",
            f"{missing} samples",
            "an image each",
            "they are trained with a white page",
            Weight.WARN,
        )
    made = (certified.limits.get("image") or {}).get("side")
    if made is not None and int(made) != image.side:
        yield Fault(
            "pages",
            "page images of another size",
            f"{made} × {made}",
            f"{image.side} × {image.side}",
            "name the model's config in the schema and run the pipeline again",
        )


def _tokenizer(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    digest, template = certified.tokenizer.get("digest"), certified.contract.get("template")
    if digest and target.tokenizer_digest and digest != target.tokenizer_digest:
        yield Fault(
            "tokenizer",
            "the model's tokenizer is another one",
            f"digest {digest[:12]}…",
            f"{target.tokenizer_digest[:12]}…",
            "run the pipeline with the model's own tokenizer, or save the data's tokenizer with the model",
        )
    if template and target.template_digest and template != target.template_digest:
        yield Fault(
            "template",
            "the chat template beside the model is another text",
            f"digest {template[:12]}…",
            f"{target.template_digest[:12]}…",
            "chat with the model through the template it was trained with (a variant with generation markers "
            "may render the same)",
            Weight.WARN,
        )


def _finite(certified: CertifiedSet, target: Target) -> Iterator[Fault]:
    for path, numbers in sorted(certified.statistics.items()):
        if lost := numbers.get("not_finite"):
            weight = Weight.REFUSE if path.startswith("bbox") else Weight.WARN
            yield Fault("finite", f"NaN or infinity in `{path}`", f"{lost} values", "none", weight=weight)


def _dtype(target: Target, fp16: bool) -> Iterator[Fault]:
    if fp16 and target.dtype == "bfloat16":
        yield Fault(
            "dtype",
            "float16 training of bfloat16 weights overflows to infinity: NaN loss",
            "fp16=True",
            "bf16=True",
            "train in bfloat16, or float32 where the card has no bfloat16",
        )
