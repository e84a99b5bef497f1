"""The libraries whose version is part of every memo key and of the certificate."""

from __future__ import annotations

import importlib.metadata

LIBRARIES = (
    "datasets", "fastexcel", "jinja2", "msgspec", "numpy", "pandera", "pillow", "polars", "pyarrow", "tokenizers",
)  # fmt: skip
"""Libraries whose version can change the bytes of a shard; the engine that encodes is proven equal, so is not here."""


def libraries() -> dict[str, str]:
    """Installed version of each library that can change bytes."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}
