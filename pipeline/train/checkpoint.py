"""Checkpoints: model, optimizer and place in the order, with the root digest of the data; whole or not there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import RefusedError

STATE = "trainer_state.json"
"""Named and shaped as a Transformers Trainer's, so that the gate reads either."""
OPTIMIZER = "optimizer.pt"
NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job stands.

    Attributes:
        step: updates done.
        epoch, index: of the next step in the order.
        root, dataset: of the data.
        order: digest of what decides the order of samples.
    """

    step: int
    epoch: int
    index: int
    root: str
    dataset: str
    order: str


def save(
    folder: Path, place: Place, model: Any, optimizer: torch.optim.Optimizer, facts: Mapping[str, Any]
) -> Path:
    """Write ``checkpoint-<step>``: under a passing name first, so that a kill leaves no half of one.

    Args:
        folder: of the job.
        place: where it stands.
        model: a transformers or peft model.
        optimizer: its state goes along.
        facts: what else is kept in the state (recipe, last loss).
    """
    final = folder / f"checkpoint-{place.step}"
    passing = folder / f".checkpoint-{place.step}.tmp"
    shutil.rmtree(passing, ignore_errors=True)
    passing.mkdir(parents=True)
    model.save_pretrained(passing)
    torch.save(optimizer.state_dict(), passing / OPTIMIZER)
    state = {
        "global_step": place.step,
        "epoch": place.epoch,
        "place": asdict(place),
        "stateful_callbacks": {"CertifiedGate": {"args": {"root": place.root}, "attributes": {}}},
        **facts,
    }
    (passing / STATE).write_text(json.dumps(state, indent=2, sort_keys=True))
    shutil.rmtree(final, ignore_errors=True)
    passing.replace(final)
    return final


def prune(folder: Path, keep: int) -> None:
    """Remove all checkpoints but the last few."""
    for path in checkpoints(folder)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a job, oldest first."""
    found = [
        (int(match[1]), path) for path in folder.glob("checkpoint-*") if (match := NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(found)]


def read_place(checkpoint: Path) -> Place:
    """The place a checkpoint was written at; raises ``RefusedError`` where it is none."""
    try:
        return Place(**json.loads((checkpoint / STATE).read_text())["place"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            "not a checkpoint of this program", where=str(checkpoint), found=type(error).__name__,
            expected=f"a folder with {STATE}",
        ) from None  # fmt: skip


def resume(checkpoint: Path, root: str, dataset: str, order: str) -> Place:
    """The place to go on from.

    Raises:
        RefusedError: the checkpoint was made with other data, or the recipe would give another order of samples.
    """
    place = read_place(checkpoint)
    for what, found, expected in (
        ("root digest", place.root, root),
        ("data set", place.dataset, dataset),
        ("order of samples", place.order, order),
    ):
        if found != expected:
            raise RefusedError(
                f"the checkpoint was made with another {what}", where=str(checkpoint), found=found[:64],
                expected=expected[:64],
                remedy="begin a new job, or go on with the folder and recipe the checkpoint was made with",
            )  # fmt: skip
    return place


def load_weights(
    checkpoint: Path, model: Any, optimizer: torch.optim.Optimizer, device: torch.device
) -> None:
    """Put a checkpoint's weights and optimizer state into a job just made. Nothing is unpickled but tensors."""
    import safetensors.torch

    adapter = checkpoint / "adapter_model.safetensors"
    if adapter.exists():
        import peft

        weights = safetensors.torch.load_file(adapter, device=str(device))
        peft.set_peft_model_state_dict(model, weights)
    else:
        weights = {}
        for file in sorted(checkpoint.glob("model*.safetensors")):
            weights |= safetensors.torch.load_file(file, device=str(device))
        missing, unexpected = model.load_state_dict(weights, strict=False)
        tied = set(getattr(model, "_tied_weights_keys", None) or ())
        if unexpected or set(missing) - tied:
            raise RefusedError(
                "the checkpoint's weights are another model's", where=str(checkpoint),
                found=f"{len(missing)} missing, {len(unexpected)} unexpected",
            )  # fmt: skip
    optimizer.load_state_dict(torch.load(checkpoint / OPTIMIZER, map_location=device, weights_only=True))
