"""``preset: funsd``: a ready YAML fragment for a known kind of source, under the user's own schema.

The user's keys win; mappings are merged key by key, lists and values are replaced whole.
"""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import SchemaError


def presets() -> tuple[str, ...]:
    """Names of all presets, sorted."""
    folder = resources.files("pipeline.schema") / "presets"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def fragment(name: str) -> dict[str, Any]:
    """The preset's part of a schema."""
    text = (resources.files("pipeline.schema") / "presets" / f"{name}.yaml").read_text("utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def with_preset(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The schema with its preset beneath it.

    Raises:
        SchemaError: no preset has this name.
    """
    name = data["preset"]
    known = presets()
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name), known, n=1)
        raise SchemaError(
            "no such preset", where=f"{path}: preset", found=str(name)[:60],
            expected=f"{near[0]}?" if near else ", ".join(known),
        )  # fmt: skip
    own = {key: value for key, value in data.items() if key != "preset"}
    return merged(fragment(name), own)


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` laid upon ``under``; neither is changed."""
    out = dict(under)
    for key, value in over.items():
        below = out.get(key)
        out[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return out
