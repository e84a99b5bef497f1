"""Deterministic metrics of a run, for DVC and dashboards. They come from the certificate alone."""

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


def findings_table(predicate: Mapping[str, Any]) -> list[tuple[Policy, str, int]]:
    """(policy, reason slug, number of records): quarantine, then repairs, then flags, each with the largest number
    first.

    The flags include repeated records that are counted and kept.
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


def dataset_tokens(dataset: Mapping[str, Any]) -> int:
    """Number of tokens of a data set, from its entry in the certificate."""
    return int(dataset["statistics"].get("input_ids[]", {}).get("count", 0))


def metrics_of(statement: Statement) -> dict[str, Any]:
    """Counts and rates, in total and by schema, as plain JSON values."""
    predicate = statement.predicate
    schemas = {}
    for name, counts in predicate["quarantine"].items():
        own = {n: d for n, d in predicate["datasets"].items() if d["contract"] == name}
        samples = {n: d["rows"] for n, d in own.items()}
        tokens = sum(dataset_tokens(d) for d in own.values())
        schemas[name] = {**_counts(counts), "samples": samples, "tokens": tokens}
    return {"root": statement.root, **_counts(predicate["totals"]), "schemas": schemas}


def write_metrics(path: Path, statement: Statement, clean: Path) -> None:
    """Write the metrics as JSON, atomically, with the token budget of each chat data set; raises ``StorageError``."""
    chats = {name: budget.summary() for name, budget in budgets(clean, statement).items()}
    content = json.dumps(metrics_of(statement) | {"chats": chats}, indent=2, sort_keys=True) + "\n"
    _write(path, content)


def write_plots(folder: Path, statement: Statement) -> None:
    """Write ``reasons.csv`` (reason, policy, records) and ``lengths.csv`` (dataset, tokens, samples)."""
    reasons = [(slug, policy.value, count) for policy, slug, count in findings_table(statement.predicate)]
    lengths = [
        (name, bucket, count)
        for name, dataset in sorted(statement.datasets.items())
        for bucket, count in sorted(dataset["lengths"].items(), key=lambda item: int(item[0]))
    ]
    _write(folder / "reasons.csv", _csv(("reason", "policy", "records"), reasons))
    _write(folder / "lengths.csv", _csv(("dataset", "tokens", "samples"), lengths))


def _counts(counts: dict[str, Any]) -> dict[str, Any]:
    judged = counts["certified"] + counts["quarantined"]
    return {
        "rows_read": counts["rows_read"],
        "certified": counts["certified"],
        "quarantined": counts["quarantined"],
        "dropped": sum(counts["dropped"].values()),
        "quarantine_rate": round(counts["quarantined"] / judged, 6) if judged else 0.0,
        "reasons": counts["reasons"],
        "repairs": counts["repairs"],
        "flags": counts["flags"],
    }


def _csv(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _write(path: Path, content: str) -> None:
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content.encode(), fsync=False)
