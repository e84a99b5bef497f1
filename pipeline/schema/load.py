"""A schema file becomes a model, or one error that lists every mistake with its line and the nearest known key.

The user's keys win; mappings are merged key by key, lists and values are replaced whole.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from pipeline.errors import InputError, SchemaError
from pipeline.schema.model import Schema
from pipeline.schema.rules import rules_of

# ``preset: funsd``: a ready YAML fragment for a known kind of source, under the user's own schema.


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


# What is wrong with a schema, in words: the place in the file and the nearest known key.


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


# A schema file becomes a model, or one error that lists every mistake with its line and the nearest known
# key.


MAX_BYTES = 1_000_000
"""A schema file larger than this is refused unread."""


@dataclass(frozen=True, slots=True)
class LoadedSchema:
    """A schema with the file it came from; relative paths in it start at ``folder``."""

    schema: Schema
    path: Path

    @property
    def folder(self) -> Path:
        """Folder of the schema file."""
        return self.path.parent


class _Loader(yaml.CSafeLoader):
    """Plain YAML without dates: ``2024-01-01`` stays text, ``yes`` and ``no`` stay text, a key stands once."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if not tag.endswith((":timestamp", ":bool"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|false|False)$"), list("tTfF")
)


def load_schema(path: Path) -> LoadedSchema:
    """Read and check one schema file.

    Raises:
        InputError: the file is not there or cannot be read.
        SchemaError: it is not YAML, or not a schema; every mistake is named with its line.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SchemaError(
                "the schema file is too large", where=str(path), expected=f"at most {MAX_BYTES} bytes"
            )
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaError("the schema is not UTF-8", where=str(path), found=f"byte {error.start}") from None
    except OSError as error:
        raise InputError(
            "the schema file cannot be read",
            where=str(path),
            found=error.strerror or type(error).__name__,
            remedy="check the path given with --schema or --schemas",
        ) from None
    data, lines = _parse(text, path)
    data = _with_preset(data, path)
    try:
        schema = Schema.model_validate_json(json.dumps(data))
    except ValidationError as error:
        found = sorted(mistakes(error, data, lines), key=lambda mistake: mistake[0])
        raise SchemaError(
            f"{len(found)} mistake{'s' if len(found) > 1 else ''} in the schema\n"
            + "\n".join(f"  line {line}: {text}" for line, text in found),
            where=str(path),
            remedy=f"correct the file; `python -m pipeline schema check {path}` checks it again",
        ) from None
    try:
        rules_of(schema)
    except SchemaError as error:
        line = lines.get(tuple(error.where.split(".")), 1)
        raise SchemaError(
            error.what, where=f"{path}:{line}: {error.where}", found=error.found, expected=error.expected,
            remedy=error.remedy,
        ) from None  # fmt: skip
    return LoadedSchema(schema, path)


def load_schemas(paths: list[Path]) -> list[LoadedSchema]:
    """Read several files; their names must differ.

    Raises:
        SchemaError: two schemas have one name, or a file has mistakes.
    """
    loaded = [load_schema(path) for path in paths]
    seen: dict[str, Path] = {}
    for one in loaded:
        if (other := seen.setdefault(one.schema.name, one.path)) is not one.path:
            raise SchemaError(
                f"two schemas are named {one.schema.name!r}",
                where=f"{other}, {one.path}",
                remedy="give each schema its own `name`: it names the data set in the output folder",
            )
    return loaded


def _with_preset(data: Any, path: Path) -> Any:
    if isinstance(data, dict) and "preset" in data:
        return with_preset(data, path)
    return data


def _parse(text: str, path: Path) -> tuple[Any, dict[Loc, int]]:
    """The data, and the line of each key and item."""
    lines: dict[Loc, int] = {}
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            raise SchemaError("the schema is empty", where=str(path), expected="a mapping with `version: 1`")
        _walk(node, (), lines, path)
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SchemaError("the schema is not valid YAML", where=place, found=str(problem)) from None
    except (RecursionError, ValueError) as error:
        raise SchemaError(
            "the schema is not valid YAML", where=str(path), found=type(error).__name__
        ) from None
    return data, lines


def _walk(node: yaml.Node, loc: Loc, lines: dict[Loc, int], path: Path) -> None:
    lines.setdefault(loc, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*loc, key.value)
            if inner in lines:
                raise SchemaError(
                    f"the key {key.value!r} stands twice",
                    where=f"{path}:{key.start_mark.line + 1}",
                    remedy="keep one of the two",
                )
            lines[inner] = key.start_mark.line + 1
            _walk(value, inner, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*loc, index), lines, path)
