"""``schema`` and ``template``: check a schema file or a chat template before any data is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
        fields = build_stages(loaded, Path()).context.fields
        typer.echo(f"{file}: ok ({loaded.schema.name}, {loaded.schema.kind}, {len(fields)} fields)")


@schema_app.command("json-schema")
def json_schema_command() -> None:
    """Print the JSON Schema of the schema language."""
    import json

    from pipeline.schema.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


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
    from pipeline.report.template import preview, print_sample, print_verdicts
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
