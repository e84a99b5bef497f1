"""The exact JSON parser, for the records that are not plainly good: numbers as written, every repeated key,
every NaN, lone surrogates kept. Strict RFC 8259 otherwise. Slower than the typed decoder by an order of
magnitude.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pipeline.reasons import Reason

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class Whole(str):
    """An integer, as written."""

    __slots__ = ()


class Real(str):
    """A number with a fraction or an exponent, as written."""

    __slots__ = ()


class Literal(str):
    """``NaN``, ``Infinity`` or ``-Infinity``, which are no JSON."""

    __slots__ = ()


class Object(dict[str, Any]):
    """An object; ``repeated`` names the keys that stand in it more than once (the first value is kept)."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        again: dict[str, None] = {}
        for key, value in pairs:
            if key in self:
                again[key] = None
            else:
                self[key] = value
        self.repeated = tuple(again)


class NotJson(Exception):
    """Why a text is no JSON: a reason of the catalogue, with what was found and expected."""

    def __init__(self, reason: Reason, found: str, expected: str = "") -> None:
        super().__init__(reason, found, expected)
        self.reason, self.found, self.expected = reason, found, expected


_DECODER = json.JSONDecoder(
    object_pairs_hook=Object, parse_int=Whole, parse_float=Real, parse_constant=Literal, strict=True
)


def parse_strict(data: bytes, depth: int) -> Any:
    """The value of a JSON text nested at most ``depth`` deep. Raises ``NotJson``."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotJson(
            Reason.JSON_INVALID, f"byte 0x{data[error.start]:02x} at column {error.start + 1} is not UTF-8"
        ) from None
    deepest = nesting(data)
    if deepest > depth:
        raise NotJson(Reason.JSON_TOO_DEEP, str(deepest), str(depth))
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise NotJson(
            Reason.JSON_INVALID, f"{error.msg.removesuffix(' at')} at {line}column {error.colno}"
        ) from None


def nesting(data: bytes) -> int:
    """Deepest nesting of lists and objects."""
    depth = deepest = 0
    for token in _TOKENS.finditer(data):
        sign = token[0]
        if sign in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in b"]}":
            depth -= 1
    return deepest


def literals(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """Path and spelling of every NaN and infinity."""
    if isinstance(value, Literal):
        yield path, str(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from literals(item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from literals(item, f"{path}[{place}]")


def repeats(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """Path and name of every key that stands more than once in its object."""
    if isinstance(value, Object):
        for key in value.repeated:
            yield f"{path}.{key}", key
        for key, item in value.items():
            yield from repeats(item, f"{path}.{key}")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from repeats(item, f"{path}[{place}]")


def object_members(value: Any) -> Iterator[str]:
    """Every key of every object, each once in its object."""
    if isinstance(value, Object):
        for key, item in value.items():
            yield key
            yield from object_members(item)
    elif isinstance(value, list):
        for item in value:
            yield from object_members(item)


def written_number(value: Any) -> str:
    """The value as compact JSON, numbers as they were written."""
    if isinstance(value, (Whole, Real, Literal)):
        return str.__str__(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    parts: list[str] = []  # plain loops: each level of nesting takes one frame of the stack only
    if isinstance(value, dict):
        for key, item in value.items():
            parts.append(f"{json.dumps(key, ensure_ascii=False)}: {written_number(item)}")
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        for item in value:
            parts.append(written_number(item))  # noqa: PERF401
        return "[" + ", ".join(parts) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def json_kind(value: Any) -> str:
    """What a value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case Literal():
            return str(value)
        case Whole() | Real():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
