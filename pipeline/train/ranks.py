"""The processes of one job, one per GPU, as ``torchrun`` starts them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from pipeline.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among all processes of the job.

    Attributes:
        rank, world: index of this process, and number of processes.
        device: the device of this process.
    """

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process writes the files and messages of the job."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            dist.barrier(device_ids=None if self.device.index is None else [self.device.index])

    def same(self, what: str, value: str) -> None:
        """Raise ``RefusedError`` on every rank unless all ranks have the same value (a root digest, a recipe)."""
        if self.world == 1:
            return
        values: list[str | None] = [None] * self.world
        dist.all_gather_object(values, value)
        if len(set(values)) > 1:
            raise RefusedError(
                f"the ranks do not have the same {what}",
                found=", ".join(f"rank {i}: {str(v)[:12]}" for i, v in enumerate(values)),
                remedy="give every node the same folder, program and recipe",
            )


def replicated(module: torch.nn.Module, ranks: Ranks) -> torch.nn.Module:
    """The module with gradients averaged over all ranks. Its buffers are constants and are not synchronized."""
    known = inspect.signature(torch.nn.parallel.DistributedDataParallel).parameters
    option = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    devices = [ranks.device.index] if ranks.device.type == "cuda" else None
    options: dict[str, Any] = {option: False}
    return torch.nn.parallel.DistributedDataParallel(
        module, device_ids=devices, gradient_as_bucket_view=True, **options
    )


def world_size() -> int:
    """Number of processes of this job, from the environment."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Join the other processes of the job, and leave them at the end.

    Args:
        device: "cuda" or "cpu".
    """
    world, local = world_size(), int(os.environ.get("LOCAL_RANK", "0"))
    own = torch.device("cuda", local) if device == "cuda" else torch.device("cpu")
    if device == "cuda":
        torch.cuda.set_device(own)
    if world > 1:
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield Ranks(int(os.environ.get("RANK", "0")), world, own)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
