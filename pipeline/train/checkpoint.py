"""Checkpoints: the model, the optimizer, the position in the order of samples and the root digest of the data.

A checkpoint is written under a temporary name and then renamed, so that it is complete or missing.
"""

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
"""Has the name and form of the state file of a Transformers ``Trainer``, so that the gate reads both."""
OPTIMIZER = "optimizer.pt"
NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a job in the order of samples.

    Attributes:
        step: number of finished updates.
        epoch, index: of the next step in the order.
        root, dataset: root digest and name of the data set.
        order: digest of everything that decides the order (``Batches.digest``).
    """

    step: int
    epoch: int
    index: int
    root: str
    dataset: str
    order: str


def save(
    folder: Path, position: Position, model: Any, optimizer: torch.optim.Optimizer, extra: Mapping[str, Any]
) -> Path:
    """Write ``checkpoint-<step>`` and return its path.

    Args:
        folder: of the job.
        position: of the job.
        model: a transformers or peft model.
        optimizer: its state is written, too.
        extra: further values of the state file (recipe, last loss).
    """
    final = folder / f"checkpoint-{position.step}"
    temporary = folder / f".checkpoint-{position.step}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    model.save_pretrained(temporary)
    torch.save(optimizer.state_dict(), temporary / OPTIMIZER)
    state = {
        "global_step": position.step,
        "epoch": position.epoch,
        "place": asdict(position),
        "stateful_callbacks": {"CertifiedGate": {"args": {"root": position.root}, "attributes": {}}},
        **extra,
    }
    (temporary / STATE).write_text(json.dumps(state, indent=2, sort_keys=True))
    shutil.rmtree(final, ignore_errors=True)
    temporary.replace(final)
    return final


def prune(folder: Path, keep: int) -> None:
    """Remove all checkpoints except the last ``keep``."""
    for path in checkpoints(folder)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a job, oldest first."""
    found = [
        (int(match[1]), path) for path in folder.glob("checkpoint-*") if (match := NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(found)]


def read_position(checkpoint: Path) -> Position:
    """The position stored in a checkpoint; raises ``RefusedError`` where the folder is not a checkpoint."""
    try:
        return Position(**json.loads((checkpoint / STATE).read_text())["place"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            "not a checkpoint of this program",
            where=str(checkpoint),
            found=type(error).__name__,
            expected=f"a folder with {STATE}",
        ) from None


def resume(checkpoint: Path, root: str, dataset: str, order: str) -> Position:
    """The position to resume from.

    Raises:
        RefusedError: the checkpoint belongs to other data, or the recipe gives another order of samples.
    """
    position = read_position(checkpoint)
    for what, found, expected in (
        ("root digest", position.root, root),
        ("data set", position.dataset, dataset),
        ("order of samples", position.order, order),
    ):
        if found != expected:
            raise RefusedError(
                f"the checkpoint was made with another {what}",
                where=str(checkpoint),
                found=found[:64],
                expected=expected[:64],
                remedy="begin a new job, or go on with the folder and recipe the checkpoint was made with",
            )
    return position


def load_weights(
    checkpoint: Path, model: Any, optimizer: torch.optim.Optimizer, device: torch.device
) -> None:
    """Load the weights and the optimizer state of a checkpoint; torch unpickles tensors only.

    Raises:
        RefusedError: the weights belong to another model.
    """
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
                "the checkpoint's weights are another model's",
                where=str(checkpoint),
                found=f"{len(missing)} missing, {len(unexpected)} unexpected",
            )
    optimizer.load_state_dict(torch.load(checkpoint / OPTIMIZER, map_location=device, weights_only=True))
