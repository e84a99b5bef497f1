"""``run`` and ``plan``: do the whole job, or show what it would do."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.errors import SchemaError
from pipeline.process import use_one_thread

if TYPE_CHECKING:
    from pipeline.report.events import Options, SilentWatch, Summary, Watch


def start(options: Options, watch: Watch) -> Summary:
    """Publish the last certificate again when nothing changed, else do the whole job.

    Raises:
        CleanroomError: as ``pipeline.run.run``.
    """
    from pipeline.rerun import publish_unchanged

    if (summary := publish_unchanged(options, watch)) is not None:
        return summary
    use_one_thread()
    # The import takes three quarters of a second, which a run without changes does not need.
    from pipeline.run import run

    return run(options, watch)


DEFAULT = Path("schemas")


def schema_files(named: Sequence[Path] | None, folder: Path | None) -> tuple[Path, ...]:
    """The named schema files and those of a folder; without either, those of ``schemas/``.

    Raises:
        SchemaError: the folder does not exist or holds no schema.
    """
    files = list(named or ())
    if folder is not None or not files:
        where = folder if folder is not None else DEFAULT
        found = sorted([*where.glob("*.yaml"), *where.glob("*.yml")]) if where.is_dir() else []
        if not found:
            raise SchemaError(
                "no schema file in this folder" if where.is_dir() else "the schema folder is not there",
                where=str(where),
                expected="at least one .yaml file",
                remedy="name a file with --schema or a folder with --schemas",
            )
        files += found
    return tuple(dict.fromkeys(files))


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
    from pipeline.errors import Exit
    from pipeline.plan import make_plan
    from pipeline.report.terminal import print_plan
    from pipeline.schema.load import load_schemas

    plan = make_plan(raw, load_schemas(list(schema_files(schema, schemas))))
    print_plan(plan)
    raise typer.Exit(Exit.INPUT if plan.faults else Exit.OK)


class LogFormat(StrEnum):
    """The format of the messages of a run."""

    TEXT = "text"
    JSON = "json"


class EngineName(StrEnum):
    """The engine that runs the partitions."""

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
    from pipeline.errors import Exit
    from pipeline.report.events import Options, WatchGroup
    from pipeline.stores.sync import session

    watches = _watches(log_format, batch_size, prometheus, lineage, raw, clean)
    with WatchGroup(watches) as watch, session(raw, clean) as folders:
        options = Options(
            folders.raw,
            folders.clean,
            schema_files(schema, schemas),
            workers,
            max_quarantine,
            force,
            fsync,
            engine.value,
            tuple(sign or ()),
        )
        summary = start(options, watch)
        folders.publish(summary.outcome.statement)
        _write_reports(options, summary, record, metrics, plots, report)
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
) -> list[SilentWatch]:
    """The watchers that the options ask for; no other is imported."""
    watches: list[SilentWatch] = []
    if log_format is LogFormat.JSON:
        from pipeline.report.json_log import JsonLog

        watches.append(JsonLog())
    else:
        from pipeline.report.terminal import Terminal

        watches.append(Terminal(batch_size))
    if prometheus:
        from pipeline.report.prometheus import Prometheus

        watches.append(Prometheus(prometheus))
    if lineage:
        from pipeline.report.openlineage import Lineage

        watches.append(Lineage(lineage, raw, clean))
    return watches


def _write_reports(
    options: Options,
    summary: Summary,
    record: Path | None,
    metrics: Path | None,
    plots: Path | None,
    report: Path | None,
) -> None:
    """Write the files that the options ask for."""
    statement = summary.outcome.statement
    if metrics is not None:
        from pipeline.report.metrics import write_metrics

        write_metrics(metrics, statement, options.clean)
    if plots is not None:
        from pipeline.report.metrics import write_plots

        write_plots(plots, statement)
    if report is not None:
        from pipeline.report.html import write_page

        write_page(report, statement, (*summary.notes, *summary.faults))
    if record is not None:
        from pipeline.report.json_log import write_run_record

        write_run_record(record, options, summary)
