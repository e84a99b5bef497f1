"""Preflight: find all faults of a job before it uses a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.train import environment, memory
from pipeline.train.faults import Fault, Weight
from pipeline.train.model import config_of
from pipeline.train.model_limits import fit_faults, schedule_faults, target_of, task_faults
from pipeline.train.recipe import Recipe
from pipeline.train.rows import CertifiedSet
from pipeline.train.train import budget_of


@dataclass(frozen=True, slots=True)
class Preflight:
    """The result of preflight.

    Attributes:
        faults: all faults of the job, also those that do not stop it.
        parameters: of the model.
        needed: estimated memory at the peak of a step.
        largest: largest number of tokens of a micro-batch on the smallest GPU, 0 where no sample fits; None without a
            GPU.
        cards: the GPUs of this machine.
    """

    faults: tuple[Fault, ...]
    parameters: memory.Parameters
    needed: memory.Estimate
    largest: int | None
    cards: tuple[environment.Card, ...]


def preflight(certified: CertifiedSet, recipe: Recipe, *, world: int = 1, device: str = "cuda") -> Preflight:
    """Check a job.

    Args:
        certified: the data set.
        recipe: the recipe, which names the model.
        world: number of ranks.
        device: "cuda"; with "cpu" the GPUs and the driver are not checked.

    Raises:
        SchemaError: the recipe names no model.
        RefusedError: the config of the model cannot be read.
    """
    config = config_of(recipe, certified)
    target = (
        target_of(Path(recipe.model.path), changes=recipe.model.config)
        if recipe.model.path
        else target_of(
            {name: value for name, value in config.items() if name not in ("id2label", "label2id")}
        )
    )
    faults = [*task_faults(certified, recipe), *fit_faults(certified, target), *environment.libraries()]
    faults += schedule_faults(certified, world=world, per_rank=max(1, recipe.batch.micro_batches // world))
    found = environment.cards() if device == "cuda" else []
    if device == "cuda":
        local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        faults += environment.machine(bf16=recipe.precision == "bf16", local_world=local)
    counted, budget = memory.parameters(recipe, certified), budget_of(certified, recipe)
    length = certified.number("input_ids", "longest") or 1
    if recipe.checkpointing and not counted.checkpointing:
        faults.append(
            Fault(
                "checkpointing",
                "this model cannot recompute its activations",
                "checkpointing: true",
                "checkpointing: false",
                "set it so in the recipe, and lower `batch: tokens:` instead",
            )
        )
    share = memory.supervised_share(certified)
    needed = memory.estimate(recipe, counted, config, budget, length, share)
    largest = None
    if found:
        least = min(card.memory for card in found)
        largest = memory.largest(recipe, counted, config, budget, length, least, share)
        faults += _memory(needed, largest, least)
    return Preflight(tuple(faults), counted, needed, largest, tuple(found))


def _memory(needed: memory.Estimate, largest: int, card: int) -> Iterator[Fault]:
    if not needed.fits(card):
        yield Fault(
            "memory",
            "the job is likely not to fit the card",
            f"about {needed.total / 2**30:.1f} GiB",
            f"at most {memory.SAFE * card / 2**30:.1f} GiB",
            f"set `batch: tokens: {largest}`" if largest else "use checkpointing, adapters or a larger card",
            Weight.WARN,
        )
