"""Replay a batch on the CPU to find the embedding lookup that fails: its module, sample and token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.errors import InputError
from pipeline.shards.schemas import IGNORE
from pipeline.train.batch_dump import Dumped, read_dump
from pipeline.train.collate import RowCollator
from pipeline.train.load import open_certified
from pipeline.train.model import build, config_of, empty_model
from pipeline.train.recipe import Recipe, recipe_of
from pipeline.train.rows import CertifiedRows, CertifiedSet

LARGEST = 1_500_000_000
"""Number of parameters up to which the whole forward pass is replayed; for larger models only the lookups of token
ids."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A lookup that fails on a GPU with an assert, or a loss that is NaN.

    Attributes:
        module: name of the embedding, or "loss".
        sample: row of the data set.
        token: index in the sample; None for the whole sample.
        found: the index, or a description of the loss.
        rows: number of rows of the table.
    """

    module: str
    sample: int
    token: int | None
    found: str
    rows: int

    def __str__(self) -> str:
        place = f"token {self.token}" if self.token is not None else "the whole sample"
        return (
            f"{self.module}: {self.found} at {place} of sample {self.sample}, the table has {self.rows} rows"
        )


def replay_dump(dump: Path, clean: Path | None = None, model: Path | None = None) -> list[Failed]:
    """Replay the last step of a dump.

    Args:
        dump: a file of ``train --dump-batches``.
        clean: the output folder of the data, if it has moved since the dump.
        model: the folder of the model, if it is not that of the recipe.

    Raises:
        InputError: the file is not a dump, or holds no step.
        RefusedError: the data is not certified.
    """
    head, steps = read_dump(dump)
    if not steps:
        raise InputError("the dump has no step", where=str(dump))
    certified = open_certified(clean or str(head["clean"]), str(head["dataset"]))
    recipe: dict[str, Any] = dict(head["recipe"])
    if model is not None:
        recipe["model"] = {**recipe["model"], "path": str(model)}
    return replay(certified, recipe_of(recipe, str(dump)), steps[-1])


def replay(certified: CertifiedSet, recipe: Recipe, step: Dumped) -> list[Failed]:
    """Run the samples of a step through the model on the CPU, with random weights, and check each lookup.

    Returns:
        Every lookup that fails; empty when the batch is not the cause.
    """
    causal = recipe.task == "causal_lm"
    collator = RowCollator(CertifiedRows(certified), causal=causal)
    counted = sum(p.numel() for p in empty_model(recipe, config_of(recipe, certified)).parameters())
    model: Any = None
    if counted <= LARGEST:
        model = build(recipe, certified, random_weights=True, device=torch.device("cpu")).eval().float()
    found: list[Failed] = []
    for micro in step.rows:
        rows = np.array([row for row in micro if row >= 0], np.int64)
        if not len(rows):
            continue
        tensors = collator.batch(rows, step.width).tensors
        config = config_of(recipe, certified)
        found += _labels(
            tensors, rows, int(config.get("vocab_size", 0)) if causal else len(config["id2label"])
        )
        if model is None:
            found += list(
                _failed_lookups("input_ids", tensors["input_ids"], int(config.get("vocab_size", 0)), rows)
            )
        else:
            found += _forward(model, tensors, rows, collator)
    return found


def _forward(
    model: Any, tensors: Mapping[str, torch.Tensor], rows: Any, collator: RowCollator
) -> list[Failed]:
    inputs = {name: t for name, t in tensors.items() if name not in ("labels", "targets", "target_ids")}
    if collator.normalization is not None:
        name = collator.normalization.name
        inputs[name] = collator.normalization(inputs[name])
    found: list[Failed] = []
    with _checked_lookups(model, rows, found), torch.no_grad():
        try:
            logits = model(**inputs).logits
        except (IndexError, RuntimeError) as error:
            if not found:
                found.append(Failed("forward pass", int(rows[0]), None, str(error).splitlines()[0][:160], 0))
            return found
    for at, row in enumerate(rows.tolist()):
        if not bool(torch.isfinite(logits[at]).all()):
            found.append(Failed("logits", row, None, "not finite", 0))
    return found


@contextmanager
def _checked_lookups(model: Any, rows: Any, found: list[Failed]) -> Iterator[None]:
    """Check the indices of every embedding before its lookup."""

    def hook_of(name: str) -> Any:
        def hook(module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            found.extend(_failed_lookups(name, inputs[0], module.num_embeddings, rows))

        return hook

    handles = [
        module.register_forward_pre_hook(hook_of(name))
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Embedding)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _failed_lookups(name: str, indices: torch.Tensor, size: int, rows: Any) -> Iterator[Failed]:
    """The first index of each sample that is outside a table of ``size`` rows."""
    bad = (indices < 0) | (indices >= size)
    if bad.ndim < 2 or len(bad) not in (1, len(rows)):
        if bool(bad.any()):
            yield Failed(name, int(rows[0]), None, f"index {int(indices[bad][0])}", size)
        return
    for at in bad.flatten(1).any(dim=1).nonzero().view(-1).tolist():
        token = int(bad[at].flatten().nonzero()[0])
        yield Failed(name, int(rows[at]), token, f"index {int(indices[at].flatten()[token])}", size)


def _labels(tensors: Mapping[str, torch.Tensor], rows: Any, classes: int) -> list[Failed]:
    labels = tensors["labels"]
    indices = torch.where(labels == IGNORE, 0, labels)
    found = list(_failed_lookups("loss", indices, classes, rows)) if indices.ndim > 1 else []
    learned = labels != IGNORE
    learned = learned[:, 1:] if "targets" in tensors else learned
    for at, row in enumerate(rows.tolist()):
        if not bool(learned[at].any()):
            found.append(Failed("loss", row, None, "no supervised label: NaN where it stands alone", classes))
    return found
