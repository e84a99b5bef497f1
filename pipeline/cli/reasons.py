"""``reasons``: the catalogue of everything a record, file or run can be found guilty of."""

from __future__ import annotations

from typing import Annotated

import typer


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
