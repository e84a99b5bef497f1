"""Verdicts of the template probes, and a sample conversation coloured by what is learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.models.probe import Verdict


class Coloured(Protocol):
    """A run of tokens of one sort."""

    @property
    def text(self) -> str: ...
    @property
    def learned(self) -> bool: ...
    @property
    def control(self) -> bool: ...


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """One line a probe."""
    table = Table("probe", "verdict", "seen")
    for verdict in verdicts:
        mark = Text("failed", "bold red") if verdict.error is not None else Text("ok", "green")
        table.add_row(verdict.name, mark, Text(verdict.text))
    console.print(table)


def print_sample(pieces: Iterable[Coloured], console: Console) -> None:
    """The sample: learned text green, control tokens bold, all else dim."""
    text = Text()
    for piece in pieces:
        style = "green" if piece.learned else "dim"
        text.append(piece.text, f"bold {style}" if piece.control else style)
    console.print(Text("learned", "green"), Text("given", "dim"), Text("control token", "bold"), sep=" · ")
    console.print(text)
