"""The plan as people read it: files, cuts, stages and rules, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.report.terminal import STYLE
from pipeline.schema.contract import describe

if TYPE_CHECKING:
    from pipeline.plan import Input, Plan
    from pipeline.stages.line import Line


def print_plan(plan: Plan) -> None:
    """Print the whole plan to stdout."""
    console = Console()
    for index, line in enumerate(plan.lines):
        mine = [one for one in plan.inputs if one.claim.schema_index == index]
        _print_schema(console, line, mine, str(plan.schemas[index].path))
    for note in (*plan.notes, *plan.faults):
        style = STYLE[note.reason.facts.default]
        console.print(
            f"[{style}]{escape(note.source)}[/]: {escape(note.reason.message(note.found, note.expected))}"
        )


def _print_schema(console: Console, line: Line, inputs: list[Input], path: str) -> None:
    schema, context = line.context.schema, line.context
    console.rule(f"[bold]{schema.name}[/] ({schema.kind}, {escape(path)})", align="left")
    files = Table("file", "format", "sheet", "encoding", "delimiter", "parts", "MB")
    for one in inputs:
        first = one.partitions[0] if one.partitions else None
        sheets = ", ".join(dict.fromkeys(p.sheet for p in one.partitions if p.sheet))
        text = first is not None and first.format in ("csv", "lines", "jsonl", "json")
        delimiter = {"\t": "tab", "": ""}.get(first.delimiter, first.delimiter) if first else ""
        files.add_row(
            escape(one.claim.source), one.claim.format, escape(sheets), first.encoding if text and first else "",
            delimiter, str(len(one.partitions)), f"{one.claim.bytes / 2**20:.2f}",
        )  # fmt: skip
    console.print(files)
    stages = ["read", *(stage.name for stage in line.records), "split", line.encode.name, line.certify.name]
    console.print(f"stages: {' → '.join(stages)}", highlight=False)
    if (tokenizer := context.tokenizer) is not None:
        console.print(f"tokenizer: {escape(tokenizer.name)}, {tokenizer.size:,} tokens", highlight=False)
    if (limits := context.limits) is not None:
        longest = "unknown" if limits.max_tokens is None else f"{limits.max_tokens:,}"
        console.print(
            f"model: {limits.family or 'any'}, {limits.embedding_rows:,} embedding rows, positions {longest}",
            highlight=False,
        )
    rules = Table("field", "must", "expected")
    for column, slug, expected in describe(schema):
        rules.add_row(escape(column), f"not be {slug}", escape(expected))
    console.print(rules)
    if schema.policies:
        console.print(
            "policies: " + ", ".join(f"{slug} {policy}" for slug, policy in schema.policies.items())
        )
