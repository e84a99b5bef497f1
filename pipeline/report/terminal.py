"""The terminal: the plan before a run, a progress bar during it, a summary after it, and the catalogue of reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pipeline.certificate.receipt import Receipt
from pipeline.errors import Exit
from pipeline.reasons import Policy, Reason
from pipeline.report.events import SilentWatch
from pipeline.report.metrics import dataset_tokens, findings_table
from pipeline.report.token_budget import budgets, print_budgets

if TYPE_CHECKING:
    from pipeline.findings import FileNote
    from pipeline.plan import Input, Plan
    from pipeline.report.events import Options, Planned, Summary
    from pipeline.stages.build import Stages
    from pipeline.worker import Progress as BatchProgress


STYLE = {Policy.QUARANTINE: "red", Policy.REPAIR: "yellow", Policy.FLAG: "cyan", Policy.ERROR: "bold red"}


class Terminal(SilentWatch):
    """Shows a run to people: the progress bar on stderr, the summary on stdout.

    Args:
        batch_size: batch size for which the summary counts training steps.
    """

    def __init__(self, batch_size: int = 16) -> None:
        self._batch_size = batch_size
        self._out = Console()
        self._err = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=self._err,
            transient=True,
        )
        self._task = self._bar.add_task("reading", total=None, counts="")
        self._rows = self._quarantined = self._tokens = 0
        self._counts_batches = False

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def planned(self, plan: Planned, tasks: int) -> None:
        self._bar.update(self._task, total=tasks)

    def batch(self, progress: BatchProgress) -> None:
        self._counts_batches = True
        self._count(progress.rows, progress.quarantined, progress.tokens)

    def partition(self, done: Receipt | FileNote) -> None:
        if isinstance(done, Receipt) and not self._counts_batches:
            self._count(done.rows_read, done.quarantined, _tokens(done))
        self._bar.advance(self._task)

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        self._bar.stop()
        print_summary(self._out, options, summary, self._batch_size)

    def _count(self, rows: int, quarantined: int, tokens: int) -> None:
        self._rows += rows
        self._quarantined += quarantined
        self._tokens += tokens
        counts = f"{self._rows:,} rows, {self._tokens:,} tokens, {self._quarantined:,} quarantined"
        self._bar.update(self._task, counts=counts)


def print_summary(console: Console, options: Options, summary: Summary, batch_size: int) -> None:
    """Print the counts of records by schema, the token budget, the findings, and the notes on files."""
    predicate = summary.outcome.statement.predicate
    table = Table(title="Records", title_justify="left")
    for name in ("schema", "read", "certified", "quarantined", "dropped", "samples", "tokens"):
        table.add_column(name, justify="left" if name == "schema" else "right")
    for schema, counts in predicate["quarantine"].items():
        own = {n: d for n, d in predicate["datasets"].items() if d["contract"] == schema}
        samples = sum(d["rows"] for n, d in own.items() if not n.endswith(".pages"))
        table.add_row(
            schema,
            f"{counts['rows_read']:,}",
            f"{counts['certified']:,}",
            f"{counts['quarantined']:,}",
            f"{sum(counts['dropped'].values()):,}",
            f"{samples:,}",
            f"{sum(map(dataset_tokens, own.values())):,}",
        )
    console.print(table)
    print_budgets(console, budgets(options.clean, summary.outcome.statement), batch_size)
    _print_findings(console, predicate)
    for note in (*summary.notes, *summary.faults):
        style = STYLE[note.reason.facts.default]
        console.print(
            f"[{style}]{escape(note.source)}[/]: {escape(note.reason.message(note.found, note.expected))}"
        )
    where = escape(str(options.clean))
    state = "unchanged" if summary.outcome.unchanged else "published"
    console.print(f"{state} {where}  root {summary.outcome.statement.root[:20]}", highlight=False)
    if summary.totals["quarantined"]:
        console.print(f"look at the quarantine: python -m pipeline quarantine show {where}", highlight=False)


def _print_findings(console: Console, predicate: Mapping[str, Any]) -> None:
    table = Table(title="Findings, in records", title_justify="left")
    table.add_column("finding")
    table.add_column("records", justify="right")
    table.add_column("became")
    table.add_column("in words")
    for policy, slug, count in findings_table(predicate):
        table.add_row(slug, f"{count:,}", f"[{STYLE[policy]}]{policy.value}[/]", Reason.of(slug).facts.title)
    if table.row_count:
        console.print(table)


def _tokens(receipt: Receipt) -> int:
    """Number of tokens of a partition, from the statistics of its shards."""
    parts = (part for several in receipt.parts.values() for part in several)
    columns = (part.statistics.get("input_ids[]") for part in parts)
    return sum(column.count for column in columns if column is not None)


def print_reasons(reasons: Sequence[Reason]) -> None:
    """Print the catalogue of reasons as a table."""
    table = Table(title=f"{len(reasons)} reasons", title_justify="left")
    for name in ("reason", "title", "effect on training", "default", "may be"):
        table.add_column(name)
    for reason in reasons:
        facts = reason.facts
        table.add_row(
            facts.slug,
            facts.title,
            facts.severity.value,
            f"[{STYLE[facts.default]}]{facts.default.value}[/]",
            ", ".join(policy.value for policy in facts.options),
        )
    Console().print(table)


def print_plan(plan: Plan) -> None:
    """Print the plan to stdout: for each schema its files, partitions, stages and rules."""
    console = Console()
    for index, stages in enumerate(plan.lines):
        own = [one for one in plan.inputs if one.claim.schema_index == index]
        _print_schema(console, stages, own, str(plan.schemas[index].path))
    for note in (*plan.notes, *plan.faults):
        style = STYLE[note.reason.facts.default]
        console.print(
            f"[{style}]{escape(note.source)}[/]: {escape(note.reason.message(note.found, note.expected))}"
        )


def _print_schema(console: Console, stages: Stages, inputs: list[Input], path: str) -> None:
    schema, context = stages.context.schema, stages.context
    console.rule(f"[bold]{schema.name}[/] ({schema.kind}, {escape(path)})", align="left")
    files = Table("file", "format", "sheet", "encoding", "delimiter", "parts", "MB")
    for one in inputs:
        first = one.partitions[0] if one.partitions else None
        sheets = ", ".join(dict.fromkeys(p.sheet for p in one.partitions if p.sheet))
        text = first is not None and first.format in ("csv", "lines", "jsonl", "json")
        delimiter = {"\t": "tab", "": ""}.get(first.delimiter, first.delimiter) if first else ""
        files.add_row(
            escape(one.claim.source),
            one.claim.format,
            escape(sheets),
            first.encoding if text and first else "",
            delimiter,
            str(len(one.partitions)),
            f"{one.claim.bytes / 2**20:.2f}",
        )
    console.print(files)
    records = (stage.name for stage in stages.records)
    names = ["read", *records, "split", stages.encode.name, stages.certify.name]
    console.print(f"stages: {' → '.join(names)}", highlight=False)
    if (tokenizer := context.tokenizer) is not None:
        console.print(f"tokenizer: {escape(tokenizer.name)}, {tokenizer.size:,} tokens", highlight=False)
    limits = context.limits
    longest = "unknown" if limits.max_tokens is None else f"{limits.max_tokens:,}"
    console.print(
        f"model: {limits.family or 'any'}, {limits.embedding_rows:,} embedding rows, positions {longest}",
        highlight=False,
    )
    from pipeline.schema.rules import describe  # imports pandera and polars

    rules = Table("field", "must", "expected")
    for column, slug, expected in describe(schema):
        rules.add_row(escape(column), f"not be {slug}", escape(expected))
    console.print(rules)
    if schema.policies:
        console.print(
            "policies: " + ", ".join(f"{slug} {policy}" for slug, policy in schema.policies.items())
        )
