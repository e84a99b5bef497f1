"""A schema file becomes a model, or one error that lists every mistake with its line and the nearest known key."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from pipeline.errors import InputError, SchemaError
from pipeline.schema.contract import rules_of
from pipeline.schema.mistakes import Loc, mistakes
from pipeline.schema.model import Schema

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
        from pipeline.schema.preset import with_preset

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
