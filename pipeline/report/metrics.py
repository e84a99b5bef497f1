"""Deterministic metrics of a run, for DVC and dashboards: made from the certificate, so they repeat with it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.certificate.statement import Statement
from pipeline.reasons import Policy
from pipeline.report.token_budget import budgets
from pipeline.shards.files import storage_errors, write_atomic

# What a certificate counts, in the order in which every report shows it.


def findings_table(predicate: Mapping[str, Any]) -> list[tuple[Policy, str, int]]:
    """(policy, reason slug, records): what was set aside first, then repairs, then flags; the frequent ones first.

    Records whose content stands elsewhere and that are only counted are among the flags.
    """
    totals = predicate["totals"]
    flags: dict[str, int] = dict(totals["flags"])
    for counts in predicate["repeated"].values():
        for slug, count in counts.items():
            flags[slug] = flags.get(slug, 0) + count
    kinds = ((Policy.QUARANTINE, totals["reasons"]), (Policy.REPAIR, totals["repairs"]), (Policy.FLAG, flags))
    return [
        (policy, slug, count)
        for policy, counts in kinds
        for slug, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def dataset_tokens(facts: Mapping[str, Any]) -> int:
    """Tokens of a data set."""
    return int(facts["statistics"].get("input_ids[]", {}).get("count", 0))


# Deterministic metrics of a run, for DVC and dashboards: made from the certificate, so they repeat with it.


def metrics_of(statement: Statement) -> dict[str, Any]:
    """Counts and rates, in all and by schema."""
    predicate = statement.predicate
    schemas = {}
    for name, accounts in predicate["quarantine"].items():
        mine = {n: d for n, d in predicate["datasets"].items() if d["contract"] == name}
        samples = {n: d["rows"] for n, d in mine.items()}
        tokens = sum(dataset_tokens(d) for d in mine.values())
        schemas[name] = {**_accounts(accounts), "samples": samples, "tokens": tokens}
    return {"root": statement.root, **_accounts(predicate["totals"]), "schemas": schemas}


def write(path: Path, statement: Statement, clean: Path) -> None:
    """Write the metrics as JSON, whole or not at all, with the token budget of each chat data set."""
    chats = {name: budget.summary() for name, budget in budgets(clean, statement).items()}
    content = json.dumps(metrics_of(statement) | {"chats": chats}, indent=2, sort_keys=True) + "\n"
    _write(path, content)


def write_plots(folder: Path, statement: Statement) -> None:
    """Write ``reasons.csv`` (reason, policy, records) and ``lengths.csv`` (dataset, tokens, samples)."""
    reasons = [(slug, policy.value, count) for policy, slug, count in findings_table(statement.predicate)]
    lengths = [
        (name, bucket, count)
        for name, facts in sorted(statement.datasets.items())
        for bucket, count in sorted(facts["lengths"].items(), key=lambda item: int(item[0]))
    ]
    _write(folder / "reasons.csv", _table(("reason", "policy", "records"), reasons))
    _write(folder / "lengths.csv", _table(("dataset", "tokens", "samples"), lengths))


def _accounts(accounts: dict[str, Any]) -> dict[str, Any]:
    judged = accounts["certified"] + accounts["quarantined"]
    return {
        "rows_read": accounts["rows_read"],
        "certified": accounts["certified"],
        "quarantined": accounts["quarantined"],
        "dropped": sum(accounts["dropped"].values()),
        "quarantine_rate": round(accounts["quarantined"] / judged, 6) if judged else 0.0,
        "reasons": accounts["reasons"],
        "repairs": accounts["repairs"],
        "flags": accounts["flags"],
    }


def _table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _write(path: Path, content: str) -> None:
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content.encode(), fsync=False)
