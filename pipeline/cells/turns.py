"""Turns of a conversation: the typed struct they are decoded into, and the columns they become."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from pipeline.fields import Content

if TYPE_CHECKING:
    import pyarrow as pa

MessageKeys = tuple[tuple[str, tuple[str, ...]], ...]

PARTS = ("role", "content", "name", "tool_calls", "tool_call_id", "train", "weight")
_TYPES: dict[str, Any] = {
    "train": bool | None | UnsetType,
    "weight": float | None | UnsetType,
    "tool_calls": None
    | UnsetType,  # a turn that calls tools is read by the exact parser, which keeps the JSON
}


@dataclass(slots=True)
class Turn:
    """One turn as the exact parser read it; see ``fields.message_dtype``."""

    role: str | None = None
    content: str | None = None
    content_kind: str = Content.MISSING.value
    name: str | None = None
    tool_calls: str | None = None
    tool_call_id: str | None = None
    train: bool | None = None
    weight: float | None = None


def turn_struct(keys: MessageKeys) -> type[msgspec.Struct]:
    """The struct of a turn: a member for each name that each part may have, such as ``role_0``, ``role_1``."""
    members: list[Any] = []
    names: dict[str, str] = {}
    for part, spellings in keys:
        for i, spelling in enumerate(spellings):
            members.append((f"{part}_{i}", _TYPES.get(part, str | None | UnsetType), UNSET))
            names[f"{part}_{i}"] = spelling
    return msgspec.defstruct("TypedTurn", members, rename=names, kw_only=True, gc=False)


def columns(turns: list[Any], keys: MessageKeys) -> pa.Array:
    """Turns, typed or exact, as an Arrow struct array of ``fields.message_dtype()``."""
    import pyarrow as pa

    typed = [turn for turn in turns if not isinstance(turn, Turn)]
    found = {part: _first(typed, part, names) for part, names in keys}
    contents = found.get("content", [UNSET] * len(typed))
    found["content_kind"] = [_kind(content) for content in contents]
    values: dict[str, list[Any]] = {}
    for part in ("role", "content", "content_kind", *PARTS[2:]):
        column = [None if value is UNSET else value for value in found.get(part, [None] * len(typed))]
        if len(typed) != len(turns):
            rest = iter(column)
            column = [getattr(turn, part) if isinstance(turn, Turn) else next(rest) for turn in turns]
        values[part] = column
    types = {"train": pa.bool_(), "weight": pa.float64()}
    arrays = [pa.array(column, types.get(part, pa.large_string())) for part, column in values.items()]
    return pa.StructArray.from_arrays(arrays, list(values))


def keys_present(turns: list[Any], keys: MessageKeys) -> list[int]:
    """Number of known keys that each typed turn was decoded from."""
    attributes = [f"{part}_{i}" for part, names in keys for i in range(len(names))]
    counts = [0] * len(turns)
    for attribute in attributes:
        for place, turn in enumerate(turns):
            if getattr(turn, attribute) is not UNSET:
                counts[place] += 1
    return counts


def flat(lists: list[Any]) -> list[Any]:
    """The elements of all lists, one after the other; None counts as no list."""
    return list(chain.from_iterable(item for item in lists if item is not None))


def _first(turns: list[Any], part: str, names: tuple[str, ...]) -> list[Any]:
    """The part's value under the first of its names that stands in each turn."""
    column = [getattr(turn, f"{part}_0") for turn in turns]
    for i in range(1, len(names)):
        if all(value is not UNSET for value in column):
            break
        column = [
            getattr(turn, f"{part}_{i}") if value is UNSET else value
            for turn, value in zip(turns, column, strict=True)
        ]
    return column


def _kind(content: Any) -> str:
    if content is UNSET:
        return Content.MISSING.value
    return Content.NULL.value if content is None else Content.TEXT.value
