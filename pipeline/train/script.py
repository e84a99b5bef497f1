"""The syntax tree of a training script: its calls, their arguments and the names of their results.

The script is parsed, never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import InputError

LARGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        name: name of the function or method ("from_pretrained").
        owner: the object of a method ("AutoTokenizer", "model"); "" for a function.
        node: in the syntax tree.
        result: variable of the result; "" without one.
        looped: whether the call is in a loop.
    """

    name: str
    owner: str
    node: ast.Call
    result: str
    looped: bool

    @property
    def line(self) -> int:
        """Line of the script."""
        return self.node.lineno

    def has(self, key: str) -> bool:
        """Whether a keyword argument is given."""
        return any(keyword.arg == key for keyword in self.node.keywords)

    def value(self, key: str) -> ast.expr | None:
        """The expression of a keyword argument; None where it is not given."""
        return next((keyword.value for keyword in self.node.keywords if keyword.arg == key), None)

    def text(self, key: str) -> str:
        """A keyword argument as written; "" where it is not given."""
        value = self.value(key)
        return "" if value is None else ast.unparse(value)

    def first(self) -> str:
        """The first positional argument as written; "" without one."""
        return ast.unparse(self.node.args[0]) if self.node.args else ""


class Script:
    """All calls and assignments of a script, in order.

    Args:
        text: source of the script.
        name: name of the file, for messages.

    Raises:
        InputError: the source is not Python.
    """

    def __init__(self, text: str, name: str) -> None:
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            raise InputError(
                "the script is no Python",
                where=name,
                found=type(error).__name__ + (f", line {line}" if line else ""),
            ) from None
        self.constants = self._constants()
        self.calls = tuple(self._calls(self.tree, "", looped=False))
        self.names = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}

    @classmethod
    def read(cls, path: Path) -> Script:
        """The script in a file; raises ``InputError``."""
        try:
            if path.stat().st_size > LARGEST:
                raise InputError(
                    "too large for a script", where=str(path), expected=f"at most {LARGEST >> 20} MiB"
                )
            text = path.read_text("utf-8", errors="replace")
        except OSError as error:
            raise InputError(
                "the script cannot be read", where=str(path), found=error.strerror or ""
            ) from None
        return cls(text, str(path))

    def to(self, *names: str) -> list[Call]:
        """Calls of functions or methods of these names."""
        return [call for call in self.calls if call.name in names]

    def assigned(self) -> Iterator[tuple[str, str, int]]:
        """Assignments as written: target, value, line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                yield ast.unparse(node.targets[0]), ast.unparse(node.value), node.lineno

    def resolved(self, text: str) -> str:
        """The constant of a name that the script assigns once; else the text itself."""
        return self.constants.get(text, text)

    def _constants(self) -> dict[str, str]:
        found: dict[str, str] = {}
        several: set[str] = set()
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Assign)
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name)
            ):
                name = node.targets[0].id
                several |= {name} & set(found)
                if isinstance(node.value, ast.Constant):
                    found[name] = ast.unparse(node.value)
        return {name: value for name, value in found.items() if name not in several}

    def _calls(self, node: ast.AST, result: str, *, looped: bool) -> Iterator[Call]:
        if isinstance(node, ast.Assign):
            result = ast.unparse(node.targets[0])
        if isinstance(node, ast.Call):
            name, owner = _called(node.func)
            yield Call(name, owner, node, result, looped)
        inside = looped or isinstance(node, ast.For | ast.While | ast.AsyncFor)
        for child in ast.iter_child_nodes(node):
            kept = result if isinstance(node, ast.Assign | ast.Await) or isinstance(child, ast.expr) else ""
            yield from self._calls(child, kept, looped=inside)


def _called(function: ast.expr) -> tuple[str, str]:
    if isinstance(function, ast.Attribute):
        owner = function.value
        return function.attr, _called(owner.func)[0] if isinstance(owner, ast.Call) else ast.unparse(owner)
    return ast.unparse(function), ""
