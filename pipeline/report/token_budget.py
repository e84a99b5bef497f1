"""The token budget of chat data sets: the samples, tokens and supervised tokens of the certified shards.

The cache keeps the counts of each shard by its digest, so that a rerun reads new shards only. The counts go into
reports only, never into a certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.certificate.cache import CacheFile
from pipeline.certificate.statement import Statement
from pipeline.shards.files import data_folder

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.batch import Samples


MARKS = (1024, 2048, 4096)
"""Lengths, in tokens; the budget counts the samples that are longer."""
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Counts over samples. The budgets of parts add up to the budget of all.

    Attributes:
        samples, tokens: number of samples and tokens.
        supervised: number of tokens that a causal loss counts; it never counts the first token of a sample.
        dropped: number of tokens cut to fit the limit.
        capacity: number of tokens that the packed samples have room for; 0 without packing.
        lengths: number of samples by exact length.
    """

    samples: int = 0
    tokens: int = 0
    supervised: int = 0
    dropped: int = 0
    capacity: int = 0
    lengths: dict[int, int] = field(default_factory=dict)

    def over(self, length: int) -> int:
        """Number of samples longer than a length."""
        return sum(count for size, count in self.lengths.items() if size > length)

    def percentile(self, share: int) -> int:
        """The smallest length that ``share`` percent of the samples do not exceed; 0 without samples."""
        needed, seen = -(-self.samples * share // 100), 0
        for size in sorted(self.lengths):
            seen += self.lengths[size]
            if seen >= needed:
                return size
        return 0

    def steps(self, batch_size: int, epochs: int = 1) -> int:
        """Number of optimizer steps of a training run; the last batch of an epoch may be smaller."""
        return epochs * -(-self.samples // batch_size)

    def summary(self) -> dict[str, int]:
        """The counts by name, in a fixed order, for the report and the metrics."""
        counts = {
            "samples": self.samples,
            "tokens": self.tokens,
            "supervised_tokens": self.supervised,
            "dropped_tokens": self.dropped,
        }
        counts |= {f"length_p{share}": self.percentile(share) for share in PERCENTILES}
        counts |= {f"samples_over_{mark}": self.over(mark) for mark in MARKS}
        if self.capacity:
            counts["packed_capacity"] = self.capacity
        return counts


def budget_of(samples: Samples, capacity: int = 0) -> TokenBudget:
    """The budget of some samples of a chat data set.

    Args:
        samples: with the columns of the chat schema.
        capacity: number of tokens that each packed sample has room for; 0 without packing.
    """
    import numpy as np

    from pipeline.arrow_lists import flatten
    from pipeline.shards.schemas import IGNORE

    labels, lengths = flatten(samples.table["labels"])
    learned = labels != IGNORE
    first_tokens = (np.cumsum(lengths) - lengths)[lengths > 0]
    learned[first_tokens] = False
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
    """The sum of several budgets."""
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


SUFFIX = ".budget"


def budgets(clean: Path, statement: Statement) -> dict[str, TokenBudget]:
    """The budget of each chat data set, in the order of their names; reads one batch at a time."""
    contracts = statement.predicate["contracts"]
    digests = {(file["folder"], file["name"]): file["sha256"] for file in statement.predicate["files"]}
    cache = CacheFile(clean, SUFFIX)
    known = _parse_budgets(cache.read())
    fresh: dict[str, TokenBudget] = {}
    found = {}
    for name, dataset in sorted(statement.datasets.items()):
        contract = contracts[dataset["contract"]]
        if contract["kind"] != "chat":
            continue
        packing = contract["parameters"]["chat"].get("packing")
        capacity = int(packing["capacity"]) if packing else 0
        folder = data_folder(name)
        for part in dataset["parts"]:
            digest = digests[folder, part]
            budget = known.get(digest) or total_budget(map(budget_of, _samples(clean / folder / part)))
            fresh[digest] = budget
        total = total_budget(fresh[digests[folder, part]] for part in dataset["parts"])
        found[name] = replace(total, capacity=capacity * total.samples)
    if fresh.keys() != known.keys():
        cache.write({digest: _json_value(budget) for digest, budget in fresh.items()})
    return found


def _json_value(budget: TokenBudget) -> list[Any]:
    return [budget.samples, budget.tokens, budget.supervised, budget.dropped, list(budget.lengths.items())]


def _parse_budgets(value: Any) -> dict[str, TokenBudget]:
    """Budgets by digest of their shard; none where the value has another form."""
    try:
        return {
            str(digest): TokenBudget(
                int(samples),
                int(tokens),
                int(supervised),
                int(dropped),
                lengths={int(length): int(count) for length, count in lengths},
            )
            for digest, (samples, tokens, supervised, dropped, lengths) in value.items()
        }
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
    """Print supervised and total tokens, lengths, and the steps of one epoch of each chat data set."""
    if not found:
        return
    from rich.table import Table

    table = Table(title="Token budget", title_justify="left")
    table.add_column("chats")
    for name in found:
        table.add_column(name, justify="right")
    all_budgets = list(found.values())

    def add(name: str, numbers: Iterable[int]) -> None:
        table.add_row(name, *(f"{number:,}" for number in numbers))

    add("supervised tokens", (budget.supervised for budget in all_budgets))
    add("all tokens", (budget.tokens for budget in all_budgets))
    add("tokens cut to fit", (budget.dropped for budget in all_budgets))
    for share in PERCENTILES:
        label = "longest" if share == 100 else f"length, {share} % within"
        add(label, (budget.percentile(share) for budget in all_budgets))
    for mark in MARKS:
        add(f"longer than {mark:,}", (budget.over(mark) for budget in all_budgets))
    add(f"steps of {batch_size}, one epoch", (budget.steps(batch_size) for budget in all_budgets))
    console.print(table)
    for name, budget in found.items():
        if budget.capacity:
            console.print(
                f"{name}: packed, {budget.tokens / budget.capacity:.1%} of the capacity used", highlight=False
            )
