"""``schema``: check a schema file; print the JSON Schema for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check schema files; print the JSON Schema of the language.", no_args_is_help=True)


@app.command("check")
def check_command(
    files: Annotated[list[Path], typer.Argument(help="Schema files.", show_default=False)],
) -> None:
    """Check schema files as a run would: keys, values, tokenizer, template and model limits."""
    from pipeline.schema.load import load_schema
    from pipeline.stages.line import build

    for file in files:
        loaded = load_schema(file)
        line = build(loaded, Path())
        kind, rules = loaded.schema.kind, len(line.context.fields)
        typer.echo(f"{file}: ok ({loaded.schema.name}, {kind}, {rules} fields)")


@app.command("json-schema")
def json_schema_command() -> None:
    """Print the JSON Schema of the schema language."""
    import json

    from pipeline.schema.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
