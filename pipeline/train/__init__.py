"""Training over certified shards only.

    from pipeline.train import CertifiedGate, load_certified

    trainer = Trainer(model, args, train_dataset=load_certified("clean", "forms"), ...)
    CertifiedGate().attach(trainer)

Needs pyarrow, numpy, torch, transformers, accelerate, peft, pydantic, PyYAML, typer and rich, and uses ``datasets``
where it is installed. Each name is imported at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.train.collate import Collator
    from pipeline.train.gate import CertifiedGate, assert_certified
    from pipeline.train.load import load_certified

_MODULES = {
    "load_certified": "load",
    "assert_certified": "gate",
    "CertifiedGate": "gate",
    "Collator": "collate",
}

__all__ = ["CertifiedGate", "Collator", "assert_certified", "load_certified"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
