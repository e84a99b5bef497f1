"""``plan``: what a run would do, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plan_command(
    raw: Annotated[Path, typer.Argument(help="Folder with the raw files.", show_default=False)],
    schema: Annotated[
        list[Path] | None, typer.Option("--schema", help="A schema file; may be given several times.")
    ] = None,
    schemas: Annotated[
        Path | None, typer.Option("--schemas", help="Folder of schema files (default: schemas/).")
    ] = None,
) -> None:
    """Show which file is read by which schema, how it is cut, which stages and rules apply. Nothing is written."""
    from pipeline.cli.schema_files import schema_files
    from pipeline.exits import Exit
    from pipeline.plan import make
    from pipeline.report.plan import print_plan
    from pipeline.schema.load import load_schemas

    plan = make(raw, load_schemas(list(schema_files(schema, schemas))))
    print_plan(plan)
    raise typer.Exit(Exit.INPUT if plan.faults else Exit.OK)
