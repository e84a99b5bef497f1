"""``train`` and ``preflight``: train on certified shards, or list every fault that stops the job."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.train.preflight import Preflight
    from pipeline.train.recipe import Recipe
    from pipeline.train.rows import CertifiedSet


class Device(StrEnum):
    """The device of a job."""

    CUDA = "cuda"
    CPU = "cpu"


CLEAN = Annotated[Path, typer.Argument(help="Output folder of a run.", show_default=False)]
RECIPE = Annotated[str, typer.Option(help="A packaged recipe by name, or a .yaml file.")]
MODEL = Annotated[Path | None, typer.Option(help="Folder of the model, instead of the recipe's.")]
SPLIT = Annotated[str | None, typer.Option(help="Data set in the folder, where there is more than one.")]
SET = Annotated[list[str] | None, typer.Option("--set", help="Change a recipe's value: run.steps=100.")]
DEVICE = Annotated[Device, typer.Option(help="cpu is for tests.")]


def train_command(
    clean: CLEAN,
    recipe: RECIPE,
    model: MODEL = None,
    split: SPLIT = None,
    out: Annotated[Path, typer.Option(help="Folder for checkpoints, metrics and plots.")] = Path("trained"),
    from_config: Annotated[bool, typer.Option("--from-config", help="Start from random weights.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    dump_batches: Annotated[
        bool, typer.Option("--dump-batches", help="Keep the last samples of each rank, for `explain`.")
    ] = False,
    device: DEVICE = Device.CUDA,
    change: SET = None,
) -> None:
    """Train a model on certified shards: refused before CUDA starts unless everything fits.

    On several GPUs: torchrun --nproc-per-node 8 -m pipeline train CLEAN --recipe llama-lora --model DIR
    --set batch.micro_batches=8
    """
    from pipeline.train.faults import refuse
    from pipeline.train.preflight import preflight
    from pipeline.train.ranks import world_size
    from pipeline.train.train import Job, check_world, train

    dataset, chosen = _resolve(clean, split, recipe, model, change)
    world = world_size()
    check_world(chosen, world)
    found = preflight(dataset, chosen, world=world, device=device.value)
    refuse(found.faults, where=str(dataset.clean))
    for fault in found.faults:
        typer.echo(f"note: {fault}", err=True)
    typer.echo(
        f"root {dataset.root[:20]}  {dataset.name}  {dataset.rows} samples  {found.parameters.trained:,} trained"
    )
    done = train(Job(dataset, chosen, out, device.value, from_config, resume, dump_batches))
    typer.echo(f"{done.steps} steps; last checkpoint {done.checkpoint}")


def preflight_command(
    clean: CLEAN,
    model: MODEL = None,
    recipe: RECIPE = "",
    split: SPLIT = None,
    world: Annotated[int, typer.Option(min=1, help="Number of GPUs.")] = 1,
    device: DEVICE = Device.CUDA,
    change: SET = None,
) -> None:
    """Compare data, model, recipe, machine and memory; nothing is loaded. Exit 6 when the job would be refused."""
    from pipeline.train.faults import refuse
    from pipeline.train.preflight import preflight

    dataset, chosen = _resolve(clean, split, recipe, model, change)
    found = preflight(dataset, chosen, world=world, device=device.value)
    _print_preflight(dataset, chosen, found)
    refuse(found.faults, where=str(dataset.clean))


def _resolve(
    clean: Path, split: str | None, recipe: str, model: Path | None, change: list[str] | None
) -> tuple[CertifiedSet, Recipe]:
    """The data set, and the recipe with what the command line changes in it."""
    from pipeline.train.load import open_certified
    from pipeline.train.recipe import changes_of, load_recipe

    dataset = open_certified(clean, split)
    changes = changes_of(change or ())
    if model is not None:
        changes |= {"model.path": str(model), "model.hub": None}
    return dataset, load_recipe(recipe or _default_recipe(dataset), changes)


def _default_recipe(dataset: CertifiedSet) -> str:
    """The name of the packaged recipe for a data set."""
    if dataset.kind == "layout":
        return "layoutlmv3" if dataset.limits.get("family") == "layoutlmv3" else "lilt"
    return "llama-lora"


def _print_preflight(dataset: CertifiedSet, recipe: Recipe, found: Preflight) -> None:
    from pipeline.train.faults import Weight

    gib = 2**30
    needed = found.needed
    typer.echo(
        f"data     {dataset.name}  {dataset.rows} samples  longest {dataset.number('input_ids', 'longest')} tokens"
    )
    typer.echo(f"root     {dataset.root}")
    typer.echo(
        f"model    {recipe.model.path or recipe.model.hub or recipe.model.config.get('model_type')}  "
        f"{found.parameters.total:,} parameters, {found.parameters.trained:,} trained"
    )
    typer.echo(
        f"memory   about {needed.total / gib:.2f} GiB: weights {needed.weights / gib:.2f}, gradients "
        f"{needed.gradients / gib:.2f}, optimizer {needed.optimizer / gib:.2f}, activations "
        f"{needed.activations / gib:.2f}, logits {needed.logits / gib:.2f}"
    )
    for card in found.cards:
        typer.echo(
            f"card     {card.name}  {card.memory / gib:.0f} GiB  compute {card.capability[0]}.{card.capability[1]}"
        )
    if found.largest is not None:
        typer.echo(
            f"batch    the card holds up to {found.largest} tokens a micro-batch (recipe: {recipe.batch.tokens})"
        )
    for fault in found.faults:
        typer.echo(f"{'REFUSED ' if fault.weight is Weight.REFUSE else 'note    '} {fault}")
    if not found.faults:
        typer.echo("ready    nothing speaks against it")
