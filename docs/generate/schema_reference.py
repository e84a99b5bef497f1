"""The reference of the schema language, made from its pydantic models and their docstrings."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pipeline.schema.model import KINDS, Schema

_HEAD = """# Schema reference

<!-- Made by `python -m docs.generate` from pipeline/schema; do not edit. -->

A schema is one YAML file: which files it claims, how their records are read, what they must be, and what they become.
Keys that are not listed here are refused, with the nearest one that is. `python -m pipeline schema json-schema` prints
a JSON Schema for editors; the files under `schemas/` are commented examples to start from. `preset:` names a ready part
of a schema for a known kind of source, or the path of a file with such a part, see [presets](presets.md).
"""


def schema_page() -> str:
    """One section a mapping, in the order they are met."""
    parts = [_HEAD]
    for model, place in _models():
        heading = f"`{place}`" if place else "The file"
        parts.append(f'\n<a id="{model.__name__}"></a>\n## {heading}\n\n{_text(model.__doc__)}\n')
        parts.append("\n| key | value | default | |\n|---|---|---|---|\n")
        parts += [_row(name, field, _need(name, field, model)) for name, field in _fields(model)]
    return "".join(parts)


def _models() -> Iterator[tuple[type[BaseModel], str]]:
    """Every mapping of the language with the place of its first use, each once."""
    seen: set[type[BaseModel]] = set()
    queue: list[tuple[type[BaseModel], str]] = [(Schema, "")]
    while queue:
        model, place = queue.pop(0)
        if model in seen:
            continue
        seen.add(model)
        yield model, place
        inner: list[tuple[type[BaseModel], str]] = []
        for name, field in _fields(model):
            below = f"{place}.{name}" if place else name
            inner += [(found, _variant(below, found)) for found in _nested(field.annotation)]
        queue[:0] = inner


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """The keys of a mapping; those of the file with the section of each kind, behind the columns."""
    for name, field in model.model_fields.items():
        yield name, field
        if model is Schema and name == "columns":
            yield from ((kind, of.model_fields[kind]) for kind, of in KINDS.items())


def _need(name: str, field: FieldInfo, model: type[BaseModel]) -> str:
    """What holds where a key is left out."""
    need = "*needed*" if field.is_required() else _default(field.default)
    return f"kind `{name}` alone: {need}" if model is Schema and name in KINDS else need


def _variant(place: str, model: type[BaseModel]) -> str:
    """``chat.source`` has one form a format: the format goes into the heading."""
    field = model.model_fields.get("format")
    choices = typing.get_args(field.annotation) if field else ()
    is_tagged = bool(choices) and field is not None and field.is_required()
    return f"{place} (format: {' or '.join(choices)})" if is_tagged else place


def _nested(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _nested(argument)


def _row(name: str, field: FieldInfo, need: str) -> str:
    cells = (f"`{name}`", _kind(field.annotation, field.metadata), need, _text(field.description))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _kind(annotation: Any, metadata: typing.Sequence[Any] = ()) -> str:
    """A type in the words of YAML."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(arguments[0], arguments[1:])
    if origin is typing.Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        parts = [_kind(argument) for argument in arguments if argument is not type(None)]
        text = " or ".join(dict.fromkeys(parts))
    elif origin is tuple:
        text = f"list of {_kind(arguments[0])}"
    elif origin is dict:
        text = f"mapping of {_kind(arguments[0])} to {_kind(arguments[1])}"
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        text = f"[{annotation.__name__}](#{annotation.__name__})"
    else:
        names = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
        text = names.get(annotation, str(annotation))
    return text + _limits(metadata)


def _limits(metadata: typing.Sequence[Any]) -> str:
    said = []
    for limit in metadata:
        match limit:
            case Ge():
                said.append(f"≥ {limit.ge}")
            case Gt():
                said.append(f"> {limit.gt}")
            case Le():
                said.append(f"≤ {limit.le}")
            case Lt():
                said.append(f"< {limit.lt}")
            case MinLen() | Len() if limit.min_length:
                said.append(f"at least {limit.min_length}")
            case MaxLen():
                said.append(f"at most {limit.max_length}")
            case FieldInfo():
                said += [text for text in (_limits(limit.metadata).strip(" ()"),) if text]
            case _ if pattern := getattr(limit, "pattern", None):
                said.append(f"matching `{pattern}`")
    return f" ({', '.join(said)})" if said else ""


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return ""
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        given = value.model_dump(exclude_defaults=True)
        return f"`{given}`" if given else "its defaults"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value!r}`" if isinstance(value, str) else f"`{value}`"


def _text(docstring: str | None) -> str:
    """A docstring on one line, in Markdown."""
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(inspect.cleandoc(docstring or "").split()))
