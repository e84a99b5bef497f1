"""Deterministic metrics of a run, for DVC and dashboards: made from the certificate, so they repeat with it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from pipeline.certificate.statement import Statement
from pipeline.report.budget import budgets
from pipeline.report.counted import dataset_tokens, findings_of
from pipeline.shards.durable import storage_errors, write_atomic


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
    reasons = [(slug, policy.value, count) for policy, slug, count in findings_of(statement.predicate)]
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
