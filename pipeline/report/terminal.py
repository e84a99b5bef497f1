"""The terminal: a progress bar while the run goes on, a summary at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pipeline.certificate.receipt import Receipt
from pipeline.exits import Exit
from pipeline.reasons import Policy, Reason
from pipeline.report.budget import budgets, print_budgets
from pipeline.report.counted import dataset_tokens, findings_of
from pipeline.report.watch import Watch

if TYPE_CHECKING:
    from pipeline.job import Options, Planned, Summary
    from pipeline.partition import Progress as BatchProgress
    from pipeline.sources.fault import FileNote

STYLE = {Policy.QUARANTINE: "red", Policy.REPAIR: "yellow", Policy.FLAG: "cyan", Policy.ERROR: "bold red"}


class Terminal(Watch):
    """For people: the bar on stderr, the summary on stdout."""

    def __init__(self, batch_size: int = 16) -> None:
        self._batch_size = batch_size
        self._out = Console()
        self._err = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(), console=self._err, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("reading", total=None, said="")
        self._rows = self._quarantined = self._tokens = 0
        self._told_by_batch = False

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
        self._told_by_batch = True
        self._count(progress.rows, progress.quarantined, progress.tokens)

    def partition(self, done: Receipt | FileNote) -> None:
        if isinstance(done, Receipt) and not self._told_by_batch:
            self._count(done.rows_read, done.quarantined, _tokens(done))
        self._bar.advance(self._task)

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        self._bar.stop()
        print_summary(self._out, options, summary, self._batch_size)

    def _count(self, rows: int, quarantined: int, tokens: int) -> None:
        self._rows += rows
        self._quarantined += quarantined
        self._tokens += tokens
        said = f"{self._rows:,} rows, {self._tokens:,} tokens, {self._quarantined:,} quarantined"
        self._bar.update(self._task, said=said)


def print_summary(console: Console, options: Options, summary: Summary, batch_size: int) -> None:
    """What was read, certified and set aside, by data set, then why, then what is said of files."""
    predicate = summary.outcome.statement.predicate
    table = Table(title="Records", title_justify="left")
    for name in ("schema", "read", "certified", "quarantined", "dropped", "samples", "tokens"):
        table.add_column(name, justify="left" if name == "schema" else "right")
    for schema, accounts in predicate["quarantine"].items():
        mine = {n: d for n, d in predicate["datasets"].items() if d["contract"] == schema}
        samples = sum(d["rows"] for n, d in mine.items() if not n.endswith(".pages"))
        table.add_row(
            schema, f"{accounts['rows_read']:,}", f"{accounts['certified']:,}", f"{accounts['quarantined']:,}",
            f"{sum(accounts['dropped'].values()):,}", f"{samples:,}", f"{sum(map(dataset_tokens, mine.values())):,}",
        )  # fmt: skip
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
    for policy, slug, count in findings_of(predicate):
        table.add_row(slug, f"{count:,}", f"[{STYLE[policy]}]{policy.value}[/]", Reason.of(slug).facts.title)
    if table.row_count:
        console.print(table)


def _tokens(receipt: Receipt) -> int:
    """Tokens of a partition's samples, from the statistics of its shards."""
    parts = [part for made in receipt.parts.values() for part in made]
    found = (part.statistics.get("input_ids[]") for part in parts)
    return sum(int(one.to_json().get("count", 0)) for one in found if one is not None)


def print_reasons(reasons: Sequence[Reason]) -> None:
    """The catalogue as a table."""
    table = Table(title=f"{len(reasons)} reasons", title_justify="left")
    for name in ("reason", "title", "effect on training", "default", "may be"):
        table.add_column(name)
    for reason in reasons:
        facts = reason.facts
        table.add_row(
            facts.slug, facts.title, facts.severity.value, f"[{STYLE[facts.default]}]{facts.default.value}[/]",
            ", ".join(policy.value for policy in facts.options),
        )  # fmt: skip
    Console().print(table)
