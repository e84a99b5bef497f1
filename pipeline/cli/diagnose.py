"""``explain``, ``audit`` and ``doctor``: the cause of a crash, hazards in a data set, faults of a training set-up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.train.explain import Explanation

MODEL = Annotated[Path, typer.Option(help="Folder of the model.", show_default=False)]
SHOWN = 40


def explain_command(
    log: Annotated[
        Path | None, typer.Argument(help="Log of the job (stdout and stderr).", show_default=False)
    ] = None,
    batches: Annotated[
        list[Path] | None, typer.Option(help="What --dump-batches wrote; may be given several times.")
    ] = None,
    clean: Annotated[Path | None, typer.Option(help="The data, where the dump's place is gone.")] = None,
    model: Annotated[Path | None, typer.Option(help="The model, where the recipe's is gone.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Run the last batch on the CPU, each lookup watched.")
    ] = False,
) -> None:
    """Explain a crashed job: data, set-up or machine; which samples; which file, sheet and row."""
    from pipeline.errors import SchemaError
    from pipeline.train.explain import explain

    if log is None and not batches:
        raise SchemaError("nothing to explain", expected="a log, or --batches", remedy="name the job's log")
    found = explain(log, batches or (), clean)
    _print_explanation(found)
    for dump in batches or () if replay else ():
        from pipeline.train.replay import replay_dump

        failed = replay_dump(dump, clean, model)
        typer.echo(
            f"replay of {dump.name} on the CPU: " + ("every lookup is within its table" if not failed else "")
        )
        for one in failed[:SHOWN]:
            typer.echo(f"  {one}")


def _print_explanation(found: Explanation) -> None:
    from pipeline.train.explain import verdict

    if found.clues or not found.suspects:
        typer.echo(verdict(found))
    for rank, clue in enumerate(found.clues):
        head = "cause" if rank == 0 else "also "
        known = clue.signature
        typer.echo(f"{head}  [{known.blame.value}] {known.name}, line {clue.line}: {known.means}")
        if rank == 0:
            typer.echo(f"       {clue.text}")
            if known.reasons:
                typer.echo("       hazards: " + ", ".join(reason.slug for reason in known.reasons))
            typer.echo(f"       to do: {known.remedy}")
    if found.step is not None:
        typer.echo(f"last step in the log: {found.step}")
    if found.data is not None:
        typer.echo(
            f"data  {found.data.name}, root {found.data.root[:20]}: certified, every byte as it was judged"
        )
    for suspect in found.suspects[:SHOWN]:
        sheet = f", sheet {suspect.sheet}" if suspect.sheet else ""
        typer.echo(
            f"  step {suspect.step}  rank {suspect.rank}  {suspect.sample_id}  ({suspect.source}{sheet}, row "
            f"{suspect.source_row})"
        )
    if len(found.suspects) > SHOWN:
        typer.echo(f"  and {len(found.suspects) - SHOWN} more")


def audit_command(
    dataset: Annotated[
        Path, typer.Argument(help="A save_to_disk folder, Parquet or Arrow.", show_default=False)
    ],
    model: MODEL,
    causal: Annotated[
        bool | None, typer.Option("--causal/--classes", help="Whether labels are token ids or classes.")
    ] = None,
) -> None:
    """Judge anything tokenized as a model would meet it: hazards with row numbers, exit 6 on any."""
    from pipeline.errors import Exit
    from pipeline.train.audit import audit
    from pipeline.train.model_limits import target_of

    found = audit(dataset, target_of(model), causal=causal)
    for file, hit in found.hits:
        typer.echo(f"{file}  {hit}")
    typer.echo(f"{found.rows} rows; columns {', '.join(found.columns)}")
    for slug, count in sorted(found.counts.items(), key=lambda item: (-item[1], item[0])):
        typer.echo(f"  {slug}  {count}")
    if found.counts:
        raise typer.Exit(Exit.REFUSED)
    typer.echo("nothing found")


def doctor_command(
    script: Annotated[
        Path | None, typer.Argument(help="A training script; it is read, never run.", show_default=False)
    ] = None,
) -> None:
    """Look for set-up faults: in the libraries and the machine, and in a script. Exit 6 where one would stop a job."""
    from pipeline.train.doctor import diagnose
    from pipeline.train.environment import libraries, machine
    from pipeline.train.faults import refuse

    faults = [*libraries(), *machine(bf16=False)]
    for fault in faults:
        typer.echo(f"machine  {fault}")
    advice = diagnose(script) if script is not None else []
    for one in advice:
        typer.echo(f"{script}:{one.line}  {one.rule}: {one.what}")
        typer.echo(f"    change: {one.change}")
    if not faults and not advice:
        typer.echo("nothing found")
    refuse([one.fault() for one in advice], where=str(script))
