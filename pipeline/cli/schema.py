"""``schema`` and ``template``: check a schema file or a chat template before any data is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import numpy as np
import polars as pl
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.fields import message_dtype
from pipeline.models.template_check import TemplateProof, Verdict
from pipeline.stages.chat.read import listed
from pipeline.stages.chat.tokenize import ChatTokenizer, trained_turns
from pipeline.stages.chat.turns import ROLES, Turns

# ``schema``: check a schema file; print the JSON Schema for editors.


schema_app = typer.Typer(
    help="Check schema files; print the JSON Schema of the language.", no_args_is_help=True
)


@schema_app.command("check")
def check_command(
    files: Annotated[list[Path], typer.Argument(help="Schema files.", show_default=False)],
) -> None:
    """Check schema files as a run would: keys, values, tokenizer, template and model limits."""
    from pipeline.schema.load import load_schema
    from pipeline.stages.build import build_stages

    for file in files:
        loaded = load_schema(file)
        line = build_stages(loaded, Path())
        kind, rules = loaded.schema.kind, len(line.context.fields)
        typer.echo(f"{file}: ok ({loaded.schema.name}, {kind}, {rules} fields)")


@schema_app.command("json-schema")
def json_schema_command() -> None:
    """Print the JSON Schema of the schema language."""
    import json

    from pipeline.schema.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


# A sample conversation in tokens, as a shard would hold it: for people to look at.


SAMPLE = (
    ("system", "You explain terms in one sentence."),
    ("user", "What is a reef?"),
    ("assistant", "A ridge of rock or coral just below the surface."),
    ("user", "And STOP in a text?"),
    ("assistant", "Plain text."),
)


@dataclass(frozen=True, slots=True)
class PreviewToken:
    """A run of tokens of one sort, with the text they decode to."""

    text: str
    learned: bool
    control: bool


def turns_of(conversations: Sequence[Sequence[tuple[str, str]]]) -> Turns:
    """Turns of conversations given as (role, content)."""
    names = [field.name for field in message_dtype().fields]
    rows = [
        [
            dict.fromkeys(names) | {"role": role, "content": text, "content_kind": "text"}
            for role, text in turns
        ]
        for turns in conversations
    ]
    series = pl.Series("messages", rows, dtype=pl.List(message_dtype()))
    return listed(series, "messages", {role: role for role in ROLES})


def preview(proof: TemplateProof, *, with_system: bool = True) -> list[PreviewToken]:
    """The sample conversation, audited; runs of learned, unlearned and control tokens.

    Raises:
        TokenizerError: ids or mask differ from the template and the reference tokenizer as a whole.
    """
    plain = [turn for turn in SAMPLE if with_system or turn[0] != "system"]
    stop = proof.tokenizer.special_texts.get("eos", "")
    conversation = [(role, text.replace("STOP", stop)) for role, text in plain]
    turns = turns_of([conversation, plain])
    codec = ChatTokenizer(proof.template, proof.tokenizer)
    encoded = codec.encode(turns, trained_turns(turns, "assistant"), audited=np.array([1]))
    length = int(encoded.lengths[0])
    ids, learned = encoded.ids[:length], encoded.learned[:length]
    control = proof.tokenizer.is_control[ids]
    edges = np.flatnonzero(np.diff(learned.astype(int) * 2 + control)) + 1
    bounds = [0, *edges.tolist(), length]
    return [
        PreviewToken(proof.tokenizer.decode(ids[a:b]), bool(learned[a]), bool(control[a]))
        for a, b in itertools.pairwise(bounds)
        if b > a
    ]


# Verdicts of the template probes, and a sample conversation coloured by what is learned.


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


# ``template``: prove a chat template on a tokenizer, before any data is read.


template_app = typer.Typer(help="Prove a chat template on a tokenizer.", no_args_is_help=True)


@template_app.callback()
def _group() -> None:
    """Prove a chat template on a tokenizer."""


@template_app.command("check")
def check_template_command(
    tokenizer: Annotated[Path, typer.Option(help="Folder with tokenizer.json.", show_default=False)],
    template: Annotated[
        Path | None, typer.Option(help="Jinja file; default: the tokenizer's own.", show_default=False)
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Date that the template is given, ISO 8601.", show_default=False)
    ] = None,
    system: Annotated[bool, typer.Option(help="Whether conversations may have a system turn.")] = True,
    tools: Annotated[bool, typer.Option(help="Whether conversations may call tools.")] = False,
) -> None:
    """Print the verdict of each probe, and a sample conversation coloured by what is learned.

    Ends with 2 when a probe fails.
    """
    from rich.console import Console

    from pipeline.models.chat_template import load_template
    from pipeline.models.template_check import DEFAULT_SHAPES, examine_template
    from pipeline.models.tokenizer import load
    from pipeline.schema.chat import Template
    from pipeline.schema.model import Tokenizer

    here = Path.cwd()
    loaded = load(Tokenizer(path=str(tokenizer)), here)
    compiled = load_template(Template(file=str(template) if template else None, date=date), here, loaded)
    shapes = [shape for shape in DEFAULT_SHAPES if system or "s" not in shape]
    proof, verdicts = examine_template(compiled, loaded, shapes=shapes, tools=tools)
    console = Console()
    print_verdicts(verdicts, console)
    for verdict in verdicts:
        if verdict.error is not None:
            raise verdict.error
    if proof is not None:
        takes_system = any("s" in shape for shape in proof.shapes)
        print_sample(preview(proof, with_system=system and takes_system), console)
