"""``quarantine``: look at what was set aside, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look at the records that were set aside.", no_args_is_help=True)


@app.command("show")
def show_command(
    clean: Annotated[Path, typer.Argument(help="Output folder of a run.", show_default=False)],
    reason: Annotated[
        list[str] | None, typer.Option("--reason", help="Only records with this reason; may be repeated.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Only records of this file.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most records to show.")] = 100,
    cells: Annotated[bool, typer.Option("--cells", help="Show the original cells, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a record.")] = False,
) -> None:
    """List quarantined records: place, reason, what was found and expected, what to do."""
    from pipeline.errors import SchemaError
    from pipeline.reasons import Reason
    from pipeline.report.quarantine import print_json, print_records, records

    wanted = set(reason or ())
    for slug in sorted(wanted):
        try:
            Reason.of(slug)
        except KeyError:
            raise SchemaError(
                "unknown reason", found=slug, remedy="`python -m pipeline reasons` lists them"
            ) from None
    found = records(clean, wanted, source)
    if as_json:
        print_json(found, limit)
    else:
        print_records(found, limit, cells=cells)
