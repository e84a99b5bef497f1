"""The command line, made from the functions behind it."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_HEAD = """# Command line

<!-- Made by `python -m docs.generate` from pipeline/cli; do not edit. -->

`python -m pipeline COMMAND`, or `cleanroom COMMAND` where the package is installed; `--version` shows the
version. Exit codes stand in [operations](operations.md).
"""


def commands_page() -> str:
    """All commands, in the order of the help."""
    from pipeline.cli.app import app

    return _HEAD + "".join(_section(name, function) for name, function in _walk(app, ""))


def _walk(app: Any, prefix: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for command in app.registered_commands:
        yield f"{prefix}{command.name or command.callback.__name__}", command.callback
    for group in app.registered_groups:
        yield from _walk(group.typer_instance, f"{prefix}{group.name} ")


def _section(name: str, function: Callable[..., Any]) -> str:
    rows = [
        _row(parameter, hint)
        for parameter, hint in zip(
            inspect.signature(function).parameters.values(),
            typing.get_type_hints(function, include_extras=True).values(),
            strict=False,
        )
    ]
    arguments = [row[0] for row in rows if not row[0].startswith("-")]
    usage = " ".join(["python -m pipeline", name, *arguments, *["[OPTIONS]"] * (len(arguments) < len(rows))])
    text = "\n\n".join(" ".join(part.split()) for part in inspect.getdoc(function).split("\n\n"))
    lines = "".join(f"| `{one}` | {about} |\n" for one, about in rows)
    table = "\n| | |\n|---|---|\n" + lines if rows else ""
    return f"\n## {name}\n\n    {usage}\n\n{text}\n{table}"


def _row(parameter: inspect.Parameter, hint: Any) -> tuple[str, str]:
    """How a parameter is written, and what it is for."""
    kind, info = typing.get_args(hint)[:2]
    many = "…" * ("list[" in str(kind))
    text = " ".join((info.help or "").split()).replace("|", "\\|")
    if type(info).__name__ == "ArgumentInfo":
        name = parameter.name.upper() + many
        return (name if parameter.default is inspect.Parameter.empty else f"[{name}]"), text
    # Inside ``Annotated`` typer keeps the first name of an option where a default would stand.
    first = (info.default,) if isinstance(info.default, str) else ()
    names = ", ".join((*first, *(info.param_decls or ()))) or f"--{parameter.name.replace('_', '-')}"
    default = parameter.default
    if default is True:
        names += f" / --no-{parameter.name.replace('_', '-')}"
    elif default is not False:
        names = f"{names.replace('/', ' / ')} {_value(kind)}".rstrip() + many
        if default is inspect.Parameter.empty:
            text += " *Needed.*"
        elif default not in (None, ""):
            text += f" Default: `{getattr(default, 'value', default)}`."
    return names, text


def _value(kind: Any) -> str:
    """What stands behind an option; nothing behind a switch."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType, list):
        return _value(typing.get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "/".join(member.value for member in kind)
    return {Path: "PATH", int: "N", float: "NUMBER", bool: ""}.get(kind, "TEXT")
