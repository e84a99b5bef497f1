"""The token budget of the chats of a run, read from their certified shards.

The counts of a shard are kept by its digest (``certificate/notes.py`` says what of them is trusted), so that a rerun
reads the new shards alone. They go into reports only, never into a certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.certificate.notes import Notes
from pipeline.certificate.statement import Statement
from pipeline.shards.part import data_folder
from pipeline.stages.chat.budget import MARKS, PERCENTILES, TokenBudget, budget_of, total

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.batch import Samples

SUFFIX = ".budget"


def budgets(clean: Path, statement: Statement) -> dict[str, TokenBudget]:
    """The budget of each chat data set, in order of their names; batch by batch, so in constant memory."""
    contracts = statement.predicate["contracts"]
    digests = {(file["folder"], file["name"]): file["sha256"] for file in statement.predicate["files"]}
    notes = Notes(clean, SUFFIX)
    known = _known(notes.read())
    fresh: dict[str, TokenBudget] = {}
    found = {}
    for name, facts in sorted(statement.datasets.items()):
        contract = contracts[facts["contract"]]
        if contract["kind"] != "chat":
            continue
        packing = contract["parameters"]["chat"].get("packing")
        capacity = int(packing["capacity"]) if packing else 0
        folder = data_folder(name)
        for part in facts["parts"]:
            digest = digests[folder, part]
            budget = known.get(digest) or total(map(budget_of, _samples(clean / folder / part)))
            fresh[digest] = budget
        whole = total(fresh[digests[folder, part]] for part in facts["parts"])
        found[name] = replace(whole, capacity=capacity * whole.samples)
    if fresh.keys() != known.keys():
        notes.write({digest: _plain(budget) for digest, budget in fresh.items()})
    return found


def _plain(budget: TokenBudget) -> list[Any]:
    return [budget.samples, budget.tokens, budget.supervised, budget.dropped, list(budget.lengths.items())]


def _known(value: Any) -> dict[str, TokenBudget]:
    """Budgets by digest of the shard; none where they have not the form."""
    try:
        return {
            str(digest): TokenBudget(
                int(samples), int(tokens), int(supervised), int(dropped),
                lengths={int(length): int(count) for length, count in lengths},
            )
            for digest, (samples, tokens, supervised, dropped, lengths) in value.items()
        }  # fmt: skip
    except (AttributeError, TypeError, ValueError):
        return {}


def _samples(path: Path) -> Iterator[Samples]:
    import numpy as np
    import pyarrow as pa

    from pipeline.batch import Samples

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield Samples(pa.Table.from_batches([batch]), np.arange(batch.num_rows, dtype=np.int64))


def print_budgets(console: Console, found: dict[str, TokenBudget], batch_size: int) -> None:
    """What there is to train on: supervised and total tokens, lengths, and the steps of one epoch."""
    if not found:
        return
    from rich.table import Table

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
