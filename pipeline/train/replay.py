"""Replay a batch on the CPU and name the lookup that fails: its module, sample and token."""

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
from pipeline.train.model import build, config_of, skeleton
from pipeline.train.recipe import Recipe, recipe_of
from pipeline.train.rows import CertifiedRows, CertifiedSet

LARGEST = 1_500_000_000
"""Parameters of the largest model whose whole forward pass is replayed; of larger ones the lookups alone."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A lookup that a card would answer with an assert, or a loss that is no number.

    Attributes:
        module: name of the embedding, or "loss".
        sample: row of the data set.
        token: index in the sample, None for a whole sample.
        found: the index, or what the loss was.
        rows: rows of the table.
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
        dump: of ``train --dump-batches``.
        clean: the data's folder, where it is not where the dump says.
        model: the model's folder, where it is not the recipe's.
    """
    head, steps = read_dump(dump)
    if not steps:
        raise InputError("the dump has no step", where=str(dump))
    facts = open_certified(clean or str(head["clean"]), str(head["dataset"]))
    told: dict[str, Any] = dict(head["recipe"])
    if model is not None:
        told["model"] = {**told["model"], "path": str(model)}
    return replay(facts, recipe_of(told, str(dump)), steps[-1])


def replay(facts: CertifiedSet, recipe: Recipe, step: Dumped) -> list[Failed]:
    """Run a step's samples through the model on the CPU, each lookup watched; the weights are random.

    Returns:
        Every lookup that fails; empty when the batch is innocent.
    """
    causal = recipe.task == "causal_lm"
    collator = RowCollator(CertifiedRows(facts), causal=causal)
    counted = sum(p.numel() for p in skeleton(recipe, config_of(recipe, facts)).parameters())
    model: Any = None
    if counted <= LARGEST:
        model = build(recipe, facts, random_weights=True, device=torch.device("cpu")).eval().float()
    found: list[Failed] = []
    for micro in step.rows:
        rows = np.array([row for row in micro if row >= 0], np.int64)
        if not len(rows):
            continue
        tensors = collator.batch(rows, step.width).tensors
        config = config_of(recipe, facts)
        found += _labels(
            tensors, rows, int(config.get("vocab_size", 0)) if causal else len(config["id2label"])
        )
        if model is None:
            found += list(_table("input_ids", tensors["input_ids"], int(config.get("vocab_size", 0)), rows))
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
    with _watched(model, rows, found), torch.no_grad():
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
def _watched(model: Any, rows: Any, found: list[Failed]) -> Iterator[None]:
    """Look at what every embedding is asked for, before it answers."""

    def look(name: str) -> Any:
        def hook(module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
            found.extend(_table(name, inputs[0], module.num_embeddings, rows))

        return hook

    handles = [
        module.register_forward_pre_hook(look(name))
        for name, module in model.named_modules() if isinstance(module, torch.nn.Embedding)
    ]  # fmt: skip
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _table(name: str, asked: torch.Tensor, size: int, rows: Any) -> Iterator[Failed]:
    """The first index of each sample that is beyond a table."""
    bad = (asked < 0) | (asked >= size)
    if bad.ndim < 2 or len(bad) not in (1, len(rows)):
        if bool(bad.any()):
            yield Failed(name, int(rows[0]), None, f"index {int(asked[bad][0])}", size)
        return
    for at in bad.flatten(1).any(dim=1).nonzero().view(-1).tolist():
        token = int(bad[at].flatten().nonzero()[0])
        yield Failed(name, int(rows[at]), token, f"index {int(asked[at].flatten()[token])}", size)


def _labels(tensors: Mapping[str, torch.Tensor], rows: Any, classes: int) -> list[Failed]:
    labels = tensors["labels"]
    asked = torch.where(labels == IGNORE, 0, labels)
    found = list(_table("loss", asked, classes, rows)) if asked.ndim > 1 else []
    learned = labels != IGNORE
    learned = learned[:, 1:] if "targets" in tensors else learned
    for at, row in enumerate(rows.tolist()):
        if not bool(learned[at].any()):
            found.append(Failed("loss", row, None, "no supervised label: NaN where it stands alone", classes))
    return found
