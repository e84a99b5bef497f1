"""Preflight: everything that speaks against a job, found before anything is put on a card, and told at once."""

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
    """What preflight found.

    Attributes:
        faults: all that speaks against the job, those that stop it and those that do not.
        parameters: of the model.
        needed: estimated peak of a step.
        largest: most tokens of a micro-batch that the smallest card holds, 0 where none does; None without a card.
        cards: GPUs of this machine.
    """

    faults: tuple[Fault, ...]
    parameters: memory.Parameters
    needed: memory.Estimate
    largest: int | None
    cards: tuple[environment.Card, ...]


def preflight(facts: CertifiedSet, recipe: Recipe, *, world: int = 1, device: str = "cuda") -> Preflight:
    """Judge a job.

    Args:
        facts: the data set.
        recipe: what is to be trained, its model resolved.
        world: number of ranks.
        device: "cuda"; "cpu" leaves the machine out.

    Raises:
        SchemaError: the recipe names no model.
        RefusedError: the model's config cannot be read: nothing can be judged.
    """
    config = config_of(recipe, facts)
    target = (
        target_of(Path(recipe.model.path), changes=recipe.model.config)
        if recipe.model.path
        else target_of(
            {name: value for name, value in config.items() if name not in ("id2label", "label2id")}
        )
    )
    faults = [*task_faults(facts, recipe), *fit_faults(facts, target), *environment.libraries()]
    faults += schedule_faults(facts, world=world, per_rank=max(1, recipe.batch.micro_batches // world))
    found = environment.cards() if device == "cuda" else []
    if device == "cuda":
        local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        faults += environment.machine(bf16=recipe.precision == "bf16", local_world=local)
    counted, budget = memory.parameters(recipe, facts), budget_of(facts, recipe)
    length = facts.number("input_ids", "longest") or 1
    if recipe.checkpointing and not counted.checkpointing:
        faults.append(
            Fault("checkpointing", "this model cannot recompute its activations", "checkpointing: true",
                  "checkpointing: false", "set it so in the recipe, and lower `batch: tokens:` instead")
        )  # fmt: skip
    share = memory.supervised_share(facts)
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
            "memory", "the job is likely not to fit the card", f"about {needed.total / 2**30:.1f} GiB",
            f"at most {memory.SAFE * card / 2**30:.1f} GiB",
            f"set `batch: tokens: {largest}`" if largest else "use checkpointing, adapters or a larger card",
            Weight.WARN,
        )  # fmt: skip
