"""One thread a test: the models are tiny, and other tests run beside. Without torch, what needs it is skipped."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None

if HAS_TORCH:
    import torch

    torch.set_num_threads(1)


class Skipped(pytest.Module):
    """A module that cannot be imported here."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        pytest.skip("torch is not installed: it comes with the extra [train]", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if HAS_TORCH or "torch" not in module_path.read_text(encoding="utf-8"):
        return None
    module: pytest.Module = Skipped.from_parent(parent, path=module_path)
    return module
