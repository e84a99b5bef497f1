"""Whether a certificate agrees with itself: every sum that can be made again is made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.certificate import statistics
from pipeline.certificate.failure import Code, Failure, failure
from pipeline.certificate.receipt import Receipt
from pipeline.certificate.statement import Statement, totals
from pipeline.shards.part import Part, data_folder


def disagreements(statement: Statement) -> Iterator[Failure]:
    """Accounts that do not add up: records read = certified + quarantined + dropped, per partition and in all; rows
    and statistics of a data set from its shards; the quarantine's counts from the partitions'."""
    receipts, files = statement.receipts(), statement.files
    for receipt in receipts:
        if words := receipt.imbalance():
            yield failure(Code.ACCOUNTS_MISMATCH, f"partition {receipt.source}", words)
    yield from _equal("totals", statement.predicate["totals"], totals(receipts))
    contracts = {facts["contract"] for facts in statement.datasets.values()}
    yield from _equal("quarantine", sorted(statement.predicate["quarantine"]), sorted(contracts))
    for contract, stated in statement.predicate["quarantine"].items():
        mine = [receipt for receipt in receipts if receipt.contract == contract]
        parts = [part.name for receipt in mine for part in receipt.quarantine]
        yield from _equal(f"quarantine {contract}", stated, totals(mine) | {"parts": parts})
    for name, facts in statement.datasets.items():
        mine = [receipt for receipt in receipts if receipt.contract == facts["contract"]]
        yield from _dataset(name, facts, mine, files)
    named = {file for receipt in receipts for file in receipt.files()}
    named |= {f"{data_folder(n)}/{p}" for n, facts in statement.datasets.items() for p in facts["parts"]}
    for unnamed in sorted(set(files) ^ named):
        yield failure(Code.ACCOUNTS_MISMATCH, f"file {unnamed}", "of no partition and no data set")


def _dataset(
    name: str, facts: Mapping[str, Any], receipts: list[Receipt], files: Mapping[str, Part]
) -> Iterator[Failure]:
    parts = [part for receipt in receipts for part in receipt.parts.get(name, ())]
    if not parts:
        parts = [files[f"{data_folder(name)}/{part}"] for part in facts["parts"]]
    where = f"data set {name}"
    yield from _equal(f"{where}, shards", facts["parts"], [part.name for part in parts])
    yield from _equal(f"{where}, rows", facts["rows"], sum(part.rows for part in parts))
    yield from _equal(f"{where}, statistics", facts["statistics"], statistics.of_parts(parts))
    lengths = statistics.total(receipt.lengths.get(name, {}) for receipt in receipts)
    yield from _equal(f"{where}, lengths", facts["lengths"], lengths)


def _equal(where: str, stated: object, made: object) -> Iterator[Failure]:
    if stated != made:
        yield failure(Code.ACCOUNTS_MISMATCH, where, "stated otherwise than its parts give")
