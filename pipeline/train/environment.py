"""The machine: whether torch, driver, GPUs and libraries fit together. No check uses the memory of a GPU."""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.train.faults import Fault, Weight

LEAST = {"torch": "2.4", "transformers": "4.57", "accelerate": "1.0", "peft": "0.17", "pyarrow": "15"}
"""The oldest versions that this program supports."""
TOGETHER = (
    "torch",
    "transformers",
    "accelerate",
    "peft",
    "trl",
    "bitsandbytes",
    "datasets",
    "tokenizers",
    "safetensors",
    "huggingface-hub",
    "numpy",
    "pyarrow",
)
"""Libraries whose requirements on each other are compared with the installed versions."""
INSTALL = "install a torch built for this driver (https://pytorch.org/get-started)"


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU, as torch sees it.

    Attributes:
        name: e.g. "NVIDIA H200".
        capability: compute capability, major and minor.
        memory: in bytes.
        bf16: whether the GPU computes bfloat16 natively; others emulate it.
    """

    name: str
    capability: tuple[int, int]
    memory: int
    bf16: bool


def cards() -> list[Card]:
    """The GPUs of this machine that torch can use."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not torch.cuda.is_available():
            return []
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        capability = (properties.major, properties.minor)
        # Native bfloat16 needs compute capability 8.0; torch reports emulation as "supported", too.
        found.append(Card(properties.name, capability, int(properties.total_memory), capability >= (8, 0)))
    return found


def machine(*, bf16: bool, local_world: int = 1) -> Iterator[Fault]:
    """The faults of torch, driver and GPUs.

    Args:
        bf16: whether training computes in bfloat16.
        local_world: number of processes on this machine.
    """
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        yield Fault(
            "cuda", "this torch is built without CUDA", f"torch {torch.__version__}", "a CUDA build", INSTALL
        )
        return
    if not (found := cards()):
        yield Fault(
            "cuda", "torch finds no usable card", _why(), f"a driver for CUDA {torch.version.cuda}", INSTALL
        )
        return
    if len(found) < local_world:
        yield Fault(
            "cuda",
            "more processes than cards",
            f"{len(found)} cards",
            f"{local_world} processes",
            "lower `--nproc-per-node`",
        )
    built = torch.cuda.get_arch_list()
    for card in {card.capability: card for card in found}.values():
        if not runs_on(card.capability, built):
            yield Fault(
                "cuda",
                f"this torch has no code for {card.name}",
                f"compute capability {card.capability[0]}.{card.capability[1]}",
                " ".join(built),
                INSTALL,
            )
        if bf16 and not card.bf16:
            yield Fault(
                "bf16",
                f"{card.name} computes bfloat16 by emulation only",
                "precision: bf16",
                "precision: fp32",
                "set `precision: fp32` in the recipe",
            )


def runs_on(capability: tuple[int, int], built: list[str]) -> bool:
    """Whether a build has code for a GPU: a binary of the same major and an equal or older minor version, or PTX of an
    equal or older version (CUDA C++ Programming Guide, "Application Compatibility")."""
    major, minor = capability
    for name in built:
        kind, _, digits = name.partition("_")
        digits = digits.rstrip("af")
        version = (int(digits[:-1]), int(digits[-1]))
        if kind == "sm" and version[0] == major and version[1] <= minor:
            return True
        if kind == "compute" and version <= (major, minor):
            return True
    return False


def libraries() -> Iterator[Fault]:
    """Versions that are too old, or that contradict the requirements of another library."""
    from packaging.requirements import Requirement
    from packaging.version import Version

    installed = {name: found for name in TOGETHER if (found := _version(name)) is not None}
    for name, least in LEAST.items():
        if name in installed and Version(installed[name]) < Version(least):
            yield Fault(
                "versions",
                f"{name} is too old",
                installed[name],
                f"at least {least}",
                f"pip install -U {name}",
            )
    for name in installed:
        for line in importlib.metadata.requires(name) or ():
            required = Requirement(line)
            version = installed.get(required.name.lower().replace("_", "-"))
            if version is None or (
                required.marker is not None and not required.marker.evaluate({"extra": ""})
            ):
                continue
            if not required.specifier.contains(version, prereleases=True):
                yield Fault(
                    "versions",
                    f"{name} {installed[name]} does not go with {required.name} {version}",
                    version,
                    str(required.specifier),
                    f"pip install '{required.name}{required.specifier}'",
                    Weight.WARN,
                )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _why() -> str:
    """What torch says about why there is no card."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except (RuntimeError, AssertionError) as error:
            return str(error).splitlines()[0][:160]
    return "no device"
