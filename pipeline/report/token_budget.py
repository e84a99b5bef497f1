"""The token budget of chats: what there is to train on, read from the certified shards.

The counts of a shard are kept by its digest (``certificate/cache.py`` says what of them is trusted), so that a rerun
reads the new shards alone. They go into reports only, never into a certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.certificate.cache import KeptFile
from pipeline.certificate.statement import Statement
from pipeline.shards.files import data_folder

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.batch import Samples


# The token budget of chats: what there is to train on, for the run's summary.


MARKS = (1024, 2048, 4096)
"""Lengths whose longer samples are counted."""
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Counts over samples; budgets of parts add up to the budget of the whole.

    Attributes:
        samples, tokens: of the certified set.
        supervised: tokens whose label is counted by a causal loss (position 0 is shifted away).
        dropped: tokens cut to fit the limit.
        capacity: tokens the samples have room for, where they are packed; 0 otherwise.
        lengths: number of samples by their exact length.
    """

    samples: int = 0
    tokens: int = 0
    supervised: int = 0
    dropped: int = 0
    capacity: int = 0
    lengths: dict[int, int] = field(default_factory=dict)

    def over(self, length: int) -> int:
        """Samples longer than a length."""
        return sum(count for size, count in self.lengths.items() if size > length)

    def percentile(self, share: int) -> int:
        """The smallest length that ``share`` percent of the samples do not exceed; 0 without samples."""
        need, seen = -(-self.samples * share // 100), 0
        for size in sorted(self.lengths):
            seen += self.lengths[size]
            if seen >= need:
                return size
        return 0

    def steps(self, batch_size: int, epochs: int = 1) -> int:
        """Optimizer steps of a training run; the last batch of an epoch may be smaller."""
        return epochs * -(-self.samples // batch_size)

    def summary(self) -> dict[str, int]:
        """Whole numbers by name, in a fixed order; for the report and the metrics."""
        facts = {
            "samples": self.samples,
            "tokens": self.tokens,
            "supervised_tokens": self.supervised,
            "dropped_tokens": self.dropped,
        }
        facts |= {f"length_p{share}": self.percentile(share) for share in PERCENTILES}
        facts |= {f"samples_over_{mark}": self.over(mark) for mark in MARKS}
        if self.capacity:
            facts["packed_capacity"] = self.capacity
        return facts


def budget_of(samples: Samples, capacity: int = 0) -> TokenBudget:
    """The budget of some samples of a chat data set.

    Args:
        capacity: tokens that each packed sample has room for; 0 where nothing is packed.
    """
    import numpy as np

    from pipeline.arrow_lists import flatten
    from pipeline.shards.schemas import IGNORE

    labels, lengths = flatten(samples.table["labels"])
    learned = labels != IGNORE
    heads = (np.cumsum(lengths) - lengths)[lengths > 0]
    learned[heads] = False
    dropped = (
        samples.table["tokens_dropped"].to_numpy() if "tokens_dropped" in samples.table.column_names else 0
    )
    sizes, counts = np.unique(lengths, return_counts=True)
    return TokenBudget(
        samples=len(lengths),
        tokens=int(lengths.sum()),
        supervised=int(learned.sum()),
        dropped=int(np.sum(dropped)),
        capacity=capacity * len(lengths),
        lengths=dict(zip(sizes.tolist(), counts.tolist(), strict=True)),
    )


def total_budget(budgets: Iterable[TokenBudget]) -> TokenBudget:
    """The budget of all parts together."""
    parts = list(budgets)
    lengths: Counter[int] = Counter()
    for part in parts:
        lengths.update(part.lengths)
    return TokenBudget(
        samples=sum(part.samples for part in parts),
        tokens=sum(part.tokens for part in parts),
        supervised=sum(part.supervised for part in parts),
        dropped=sum(part.dropped for part in parts),
        capacity=sum(part.capacity for part in parts),
        lengths=dict(sorted(lengths.items())),
    )


# The token budget of the chats of a run, read from their certified shards.


SUFFIX = ".budget"


def budgets(clean: Path, statement: Statement) -> dict[str, TokenBudget]:
    """The budget of each chat data set, in order of their names; batch by batch, so in constant memory."""
    contracts = statement.predicate["contracts"]
    digests = {(file["folder"], file["name"]): file["sha256"] for file in statement.predicate["files"]}
    notes = KeptFile(clean, SUFFIX)
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
            budget = known.get(digest) or total_budget(map(budget_of, _samples(clean / folder / part)))
            fresh[digest] = budget
        whole = total_budget(fresh[digests[folder, part]] for part in facts["parts"])
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
