"""What is wrong with a schema, in words: the place in the file and the nearest known key."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from pipeline.schema.model import Schema

Loc = tuple[str | int, ...]
"""Place in the file: keys and list indexes."""


def mistakes(error: ValidationError, data: Any, lines: dict[Loc, int]) -> Iterator[tuple[int, str]]:
    """(line, text) of each mistake that pydantic names; ``lines`` gives the line of each place."""
    seen: set[tuple[Loc, str]] = set()
    for item in error.errors():
        loc, unions = _in_file(item["loc"], data)
        line = next((lines[loc[:n]] for n in range(len(loc), -1, -1) if loc[:n] in lines), 1)
        name = ".".join(str(part) for part in loc) or "schema"
        if item["type"] == "extra_forbidden":
            known = _known_keys(Schema, item["loc"][:-1])
            near = difflib.get_close_matches(str(loc[-1]), known, n=1, cutoff=0.5)
            text = f"{name}: unknown key; " + (
                f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
            )
        elif item["type"] == "missing":
            text = (
                f"{name}.{item['loc'][-1]}: is missing"
                if name != "schema"
                else f"{item['loc'][-1]}: is missing"
            )
        else:
            message = item["msg"].removeprefix("Value error, ")
            value = item.get("input")
            shown = f" (found {value!r})" if isinstance(value, str | int | float | bool | None) else ""
            text = f"{name}: {message[0].lower()}{message[1:]}{shown}"
        if (loc, "" if unions else text) not in seen:
            seen.add((loc, "" if unions else text))
            yield line, text


def _in_file(loc: tuple[str | int, ...], data: Any) -> tuple[Loc, bool]:
    """The part of a pydantic location that stands in the file: tags of unions do not. True: there were some."""
    place: list[str | int] = []
    left_out = False
    for index, part in enumerate(loc):
        if part in data if isinstance(data, dict) else _is_index(part, data):
            data = data[part]
            place.append(part)
        elif index < len(loc) - 1 or not isinstance(data, dict):
            left_out = True
    return tuple(place), left_out


def _is_index(part: str | int, data: Any) -> bool:
    return isinstance(data, list) and isinstance(part, int) and part < len(data)


def _known_keys(model: type[BaseModel], loc: tuple[str | int, ...]) -> list[str]:
    """Keys known at a location, following the models of the schema."""

    def models_in(annotation: Any) -> list[type[BaseModel]]:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return [annotation]
        return [m for a in get_args(annotation) for m in models_in(a)]

    here: list[type[BaseModel]] = [model]
    for part in loc:
        inner: list[type[BaseModel]] = []
        for candidate in here:
            if isinstance(part, str) and part in candidate.model_fields:
                inner += models_in(candidate.model_fields[part].annotation)
        if inner:
            here = inner
        elif any(_tag(m) == part or m.__name__ == part for m in here):
            here = [m for m in here if _tag(m) == part or m.__name__ == part]
    return sorted({key for m in here for key in m.model_fields})


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("format")
    names = get_args(field.annotation) if field else ()
    return names[0] if names else None
