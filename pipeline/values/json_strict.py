"""The strict JSON parser, for records that the typed decoder cannot prove right.

It follows RFC 8259 and keeps what other parsers lose: the digits of numbers, repeated keys, NaN and infinity, and lone
surrogates, so that each becomes a finding. It is an order of magnitude slower than the typed decoder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pipeline.reasons import Reason

_STRINGS_AND_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class IntegerText(str):
    """The digits of an integer, as the file has them."""

    __slots__ = ()


class NumberText(str):
    """The text of a number with a fraction or an exponent, as the file has it."""

    __slots__ = ()


class NonFinite(str):
    """``NaN``, ``Infinity`` or ``-Infinity``: not JSON, but many programs write them."""

    __slots__ = ()


class Object(dict[str, Any]):
    """An object; ``repeated`` names the keys that occur more than once in it. The first value of a key stays."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        repeated: dict[str, None] = {}
        for key, value in pairs:
            if key in self:
                repeated[key] = None
            else:
                self[key] = value
        self.repeated = tuple(repeated)


class NotJson(Exception):
    """A text that is not JSON: the reason, and what was found and expected."""

    def __init__(self, reason: Reason, found: str, expected: str = "") -> None:
        super().__init__(reason, found, expected)
        self.reason, self.found, self.expected = reason, found, expected


_DECODER = json.JSONDecoder(
    object_pairs_hook=Object,
    parse_int=IntegerText,
    parse_float=NumberText,
    parse_constant=NonFinite,
    strict=True,
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
    """Depth of the deepest list or object."""
    depth = deepest = 0
    for token in _STRINGS_AND_BRACKETS.finditer(data):
        bracket = token[0]
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif bracket in b"]}":
            depth -= 1
    return deepest


def non_finite_literals(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """Path and text of every NaN and infinity."""
    if isinstance(value, NonFinite):
        yield path, str(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from non_finite_literals(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from non_finite_literals(item, f"{path}[{index}]")


def repeated_keys(value: Any, path: str = "$") -> Iterator[tuple[str, str]]:
    """Path and name of every key that occurs more than once in its object."""
    if isinstance(value, Object):
        for key in value.repeated:
            yield f"{path}.{key}", key
        for key, item in value.items():
            yield from repeated_keys(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from repeated_keys(item, f"{path}[{index}]")


def all_keys(value: Any) -> Iterator[str]:
    """The keys of all objects; a repeated key counts once in its object."""
    if isinstance(value, Object):
        for key, item in value.items():
            yield key
            yield from all_keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from all_keys(item)


def json_text(value: Any) -> str:
    """The value as JSON text; numbers keep their digits."""
    if isinstance(value, (IntegerText, NumberText, NonFinite)):
        return str.__str__(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    parts: list[str] = []  # loops, not comprehensions: each level of nesting then takes one stack frame
    if isinstance(value, dict):
        for key, item in value.items():
            parts.append(f"{json.dumps(key, ensure_ascii=False)}: {json_text(item)}")
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        for item in value:
            parts.append(json_text(item))  # noqa: PERF401
        return "[" + ", ".join(parts) + "]"
    return {None: "null", True: "true", False: "false"}[value]


def json_kind(value: Any) -> str:
    """The kind of a value, as findings show it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case NonFinite():
            return str(value)
        case IntegerText() | NumberText():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
