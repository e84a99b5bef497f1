"""``quarantine`` and ``reasons``: the quarantined records with their reasons, and the catalogue of all reasons."""

from __future__ import annotations

from typing import Annotated

import typer

ONLY = ("certificate.json", "quarantine/", ".refused/")
"""Beginnings of the names of the files that the command reads."""

quarantine_app = typer.Typer(help="Look at the records that were set aside.", no_args_is_help=True)


@quarantine_app.command("show")
def show_command(
    clean: Annotated[str, typer.Argument(help="Output folder of a run, or its URL.", show_default=False)],
    reason: Annotated[
        list[str] | None, typer.Option("--reason", help="Only records with this reason; may be repeated.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Only records of this file.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most records to show.")] = 100,
    cells: Annotated[bool, typer.Option("--cells", help="Show the original cells, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a record.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Those of the certificate, where a later run was refused.")
    ] = False,
) -> None:
    """List the records that the last run set aside, also where it was refused: place, reason, what was found and
    expected, what to do."""
    from pipeline.certificate.folder import refused_parts
    from pipeline.errors import SchemaError
    from pipeline.reasons import Reason
    from pipeline.report.quarantine import print_json, print_records, records
    from pipeline.stores.sync import fetched

    wanted = set(reason or ())
    for slug in sorted(wanted):
        try:
            Reason.of(slug)
        except KeyError:
            raise SchemaError(
                "unknown reason", found=slug, remedy="`python -m pipeline reasons` lists them"
            ) from None
    with fetched(clean, ONLY) as folder:
        if not published and refused_parts(folder) is not None:
            typer.echo(
                "the last run was refused; these are its records (--published: the certificate's)", err=True
            )
        found = records(folder, wanted, source, published=published)
        if as_json:
            print_json(found, limit)
        else:
            print_records(found, limit, cells=cells)


def reasons_command(
    slug: Annotated[str | None, typer.Argument(help="Show one reason in full.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the reasons, what they do to training and what becomes of the record."""
    import json

    from pipeline.errors import SchemaError
    from pipeline.reasons import Reason

    if slug is not None:
        try:
            shown = [Reason.of(slug)]
        except KeyError:
            raise SchemaError(
                "unknown reason", found=slug, remedy="`python -m pipeline reasons` lists them"
            ) from None
    else:
        shown = list(Reason)
    if as_json:
        typer.echo(json.dumps([_facts(reason) for reason in shown], indent=2))
    elif slug is not None:
        for name, value in _facts(shown[0]).items():
            typer.echo(f"{name:9} {', '.join(value) if isinstance(value, list) else value}")
    else:
        from pipeline.report.terminal import print_reasons

        print_reasons(shown)


def _facts(reason: object) -> dict[str, object]:
    from pipeline.reasons import Reason

    assert isinstance(reason, Reason)  # noqa: S101
    facts = reason.facts
    return {
        "reason": facts.slug,
        "title": facts.title,
        "scope": facts.scope.value,
        "effect": facts.severity.value,
        "default": facts.default.value,
        "options": [policy.value for policy in facts.options],
        "message": reason.message("<found>", "<expected>"),
        "remedy": facts.remedy,
    }
