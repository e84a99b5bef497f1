"""The data gate: how much may be set aside before nothing is published."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pipeline.certificate.receipt import Receipt
from pipeline.certificate.statement import Contract, totals
from pipeline.errors import GateError


def judge(contracts: Sequence[Contract], receipts: Sequence[Receipt]) -> None:
    """Raise ``GateError`` where a schema is over its quarantine budget, or nothing at all was certified."""
    for contract in contracts:
        accounts = totals([receipt for receipt in receipts if receipt.contract == contract.name])
        certified, quarantined = accounts["certified"], accounts["quarantined"]
        records = certified + quarantined
        if not records:
            continue
        if not certified:
            raise _refusal("no record can be trained on", contract, accounts, "at least one certified record")
        if quarantined > Fraction(str(contract.max_rate)) * records:
            limit = f"at most {contract.max_rate:.2%} (`quarantine: max_rate:` or --max-quarantine)"
            raise _refusal("over the quarantine budget", contract, accounts, limit)
    if not sum(receipt.certified for receipt in receipts):
        raise GateError(
            "no record was read that can be trained on",
            found="0 certified records",
            expected="at least one",
            remedy="put records into the files, or declare the sheet that has them under `read: sheets:`",
        )


def _refusal(what: str, contract: Contract, accounts: dict[str, object], expected: str) -> GateError:
    certified, quarantined = int(str(accounts["certified"])), int(str(accounts["quarantined"]))
    share = quarantined / (certified + quarantined)
    return GateError(
        what,
        where=contract.name,
        found=f"{quarantined} of {certified + quarantined} records quarantined ({share:.2%}): {_worst(accounts)}",
        expected=expected,
        remedy="`quarantine show` lists the records with their reasons; nothing was published",
    )


def _worst(accounts: dict[str, object]) -> str:
    """The most frequent reasons, at most five."""
    reasons = accounts["reasons"]
    assert isinstance(reasons, dict)  # noqa: S101
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{slug} {count}" for slug, count in ordered[:5])
