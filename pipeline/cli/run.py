"""``run``: the main job."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.job import Options, Summary
    from pipeline.report.watch import Watch


class LogFormat(StrEnum):
    """How a run tells of itself."""

    TEXT = "text"
    JSON = "json"


class EngineName(StrEnum):
    """What runs the partitions."""

    LOCAL = "local"
    RAY = "ray"


def run_command(
    raw: Annotated[
        str,
        typer.Argument(help="Folder with the raw files, or its URL (s3://…); only read.", show_default=False),
    ],
    clean: Annotated[
        str,
        typer.Argument(help="Folder for certified shards and quarantine, or its URL.", show_default=False),
    ],
    schema: Annotated[
        list[Path] | None, typer.Option("--schema", help="A schema file; may be given several times.")
    ] = None,
    schemas: Annotated[
        Path | None, typer.Option("--schemas", help="Folder of schema files (default: schemas/).")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the result is the same with any.")] = 1,
    max_quarantine: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Largest share set aside, instead of each schema's own."),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Write the run record here (JSON: times, host, versions).")
    ] = None,
    metrics: Annotated[Path | None, typer.Option(help="Write deterministic metrics here (JSON).")] = None,
    plots: Annotated[
        Path | None, typer.Option(help="Write reasons.csv and lengths.csv into this folder.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report here (one HTML page).")] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Batch size that the summary counts training steps for.")
    ] = 16,
    log_format: Annotated[
        LogFormat, typer.Option(help="text for people, json for one object a line.")
    ] = LogFormat.TEXT,
    engine: Annotated[EngineName, typer.Option(help="What runs the partitions.")] = EngineName.LOCAL,
    force: Annotated[bool, typer.Option("--force", help="Reuse nothing of the run before.")] = False,
    fsync: Annotated[bool, typer.Option(help="Sync every file to disk; switch off for scratch runs.")] = True,
    sign: Annotated[
        list[Path] | None,
        typer.Option("--sign", help="Sign the certificate with this private key; repeatable."),
    ] = None,
    prometheus: Annotated[
        Path | None, typer.Option(help="Write metrics for a textfile collector here.")
    ] = None,
    lineage: Annotated[Path | None, typer.Option(help="Append OpenLineage events to this file.")] = None,
    unchanged_exit_code: Annotated[
        int, typer.Option(min=0, max=255, help="Exit code when nothing changed.")
    ] = 0,
) -> None:
    """Sanitize RAW into CLEAN: certified shards, a quarantine with reasons, and a certificate written last.

    Exit codes: 0 published or unchanged, 2 wrong schema or arguments, 3 over the quarantine budget, 4 a file could
    not be read (the others are published), 74 disk, 75 busy.
    """
    from pipeline.cli.schema_files import schema_files
    from pipeline.exits import Exit
    from pipeline.job import Options
    from pipeline.report.several import Several
    from pipeline.start import run
    from pipeline.stores.session import session

    watches = _watches(log_format, batch_size, prometheus, lineage, raw, clean)
    with Several(watches) as watch, session(raw, clean) as places:
        options = Options(
            places.raw, places.clean, schema_files(schema, schemas), workers, max_quarantine, force, fsync,
            engine.value, tuple(sign or ()),
        )  # fmt: skip
        summary = run(options, watch)
        places.publish(summary.outcome.statement)
        _write(options, summary, record, metrics, plots, report)
        code = Exit.INPUT if summary.faults else Exit.OK
        watch.end(options, summary, code)
    if code is Exit.OK and summary.outcome.unchanged:
        raise typer.Exit(unchanged_exit_code)
    raise typer.Exit(code)


def _watches(
    log_format: LogFormat,
    batch_size: int,
    prometheus: Path | None,
    lineage: Path | None,
    raw: str,
    clean: str,
) -> list[Watch]:
    """Whoever is told of the run; only what is asked for is imported."""
    watches: list[Watch] = []
    if log_format is LogFormat.JSON:
        from pipeline.report.log import JsonLog

        watches.append(JsonLog())
    else:
        from pipeline.report.terminal import Terminal

        watches.append(Terminal(batch_size))
    if prometheus:
        from pipeline.report.prometheus import Prometheus

        watches.append(Prometheus(prometheus))
    if lineage:
        from pipeline.report.lineage import Lineage

        watches.append(Lineage(lineage, raw, clean))
    return watches


def _write(
    options: Options,
    summary: Summary,
    record: Path | None,
    metrics: Path | None,
    plots: Path | None,
    report: Path | None,
) -> None:
    """The files asked for."""
    statement = summary.outcome.statement
    if metrics is not None or plots is not None:
        from pipeline.report import metrics as measured

        if metrics is not None:
            measured.write(metrics, statement, options.clean)
        if plots is not None:
            measured.write_plots(plots, statement)
    if report is not None:
        from pipeline.report import html

        html.write(report, statement, (*summary.notes, *summary.faults))
    if record is not None:
        from pipeline.report import record as recorded

        recorded.write(record, options, summary)
