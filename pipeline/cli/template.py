"""``template``: prove a chat template on a tokenizer, before any data is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Prove a chat template on a tokenizer.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Prove a chat template on a tokenizer."""


@app.command("check")
def check_command(
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
    from pipeline.models.probe import DEFAULT_SHAPES, examine
    from pipeline.models.tokenizer import load
    from pipeline.report.template import print_sample, print_verdicts
    from pipeline.schema.chat import Template
    from pipeline.schema.model import Tokenizer
    from pipeline.stages.chat.preview import preview

    here = Path.cwd()
    loaded = load(Tokenizer(path=str(tokenizer)), here)
    compiled = load_template(Template(file=str(template) if template else None, date=date), here, loaded)
    shapes = [shape for shape in DEFAULT_SHAPES if system or "s" not in shape]
    proof, verdicts = examine(compiled, loaded, shapes=shapes, tools=tools)
    console = Console()
    print_verdicts(verdicts, console)
    for verdict in verdicts:
        if verdict.error is not None:
            raise verdict.error
    if proof is not None:
        takes_system = any("s" in shape for shape in proof.shapes)
        print_sample(preview(proof, with_system=system and takes_system), console)
