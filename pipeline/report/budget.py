"""The token budget of the chats of a run, read from their certified shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from pipeline.batch import Samples
from pipeline.certificate.statement import Statement
from pipeline.shards.part import data_folder
from pipeline.stages.chat.budget import MARKS, PERCENTILES, TokenBudget, budget_of, total


def budgets(clean: Path, statement: Statement) -> dict[str, TokenBudget]:
    """The budget of each chat data set, in order of their names; batch by batch, so in constant memory."""
    contracts = statement.predicate["contracts"]
    found = {}
    for name, facts in sorted(statement.datasets.items()):
        contract = contracts[facts["contract"]]
        if contract["kind"] != "chat":
            continue
        packing = contract["parameters"]["chat"].get("packing")
        capacity = int(packing["capacity"]) if packing else 0
        folder = clean / data_folder(name)
        found[name] = total(
            budget_of(samples, capacity) for part in facts["parts"] for samples in _samples(folder / part)
        )
    return found


def _samples(path: Path) -> Iterator[Samples]:
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield Samples(pa.Table.from_batches([batch]), np.arange(batch.num_rows, dtype=np.int64))


def print_budgets(console: Console, found: dict[str, TokenBudget], batch_size: int) -> None:
    """What there is to train on: supervised and total tokens, lengths, and the steps of one epoch."""
    if not found:
        return
    table = Table(title="Token budget", title_justify="left")
    table.add_column("chats")
    for name in found:
        table.add_column(name, justify="right")
    whole = list(found.values())

    def add(name: str, numbers: Iterable[int]) -> None:
        table.add_row(name, *(f"{number:,}" for number in numbers))

    add("supervised tokens", (budget.supervised for budget in whole))
    add("all tokens", (budget.tokens for budget in whole))
    add("tokens cut to fit", (budget.dropped for budget in whole))
    for share in PERCENTILES:
        label = "longest" if share == 100 else f"length, {share} % within"
        add(label, (budget.percentile(share) for budget in whole))
    for mark in MARKS:
        add(f"longer than {mark:,}", (budget.over(mark) for budget in whole))
    add(f"steps of {batch_size}, one epoch", (budget.steps(batch_size) for budget in whole))
    console.print(table)
    for name, budget in found.items():
        if budget.capacity:
            console.print(
                f"{name}: packed, {budget.tokens / budget.capacity:.1%} of the capacity used", highlight=False
            )
