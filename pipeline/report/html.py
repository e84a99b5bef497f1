"""The report of a run as one HTML page without scripts and external files.

It is made from the certificate, so it holds no cell text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.certificate.statement import Statement
from pipeline.findings import FileNote
from pipeline.reasons import Reason
from pipeline.report.metrics import dataset_tokens, findings_table
from pipeline.shards.files import storage_errors, write_atomic

TEMPLATE = Path(__file__).with_name("report.html.jinja")


def render(statement: Statement, notes: Sequence[FileNote]) -> str:
    """The HTML of the page; every value is escaped."""
    from jinja2 import Environment

    predicate = statement.predicate
    totals = predicate["totals"]
    template = Environment(autoescape=True).from_string(TEMPLATE.read_text("utf-8"))
    return template.render(
        root=statement.root,
        tiles=_tiles(totals),
        schemas=[_schema(name, counts, predicate) for name, counts in predicate["quarantine"].items()],
        findings=_findings(predicate),
        lengths=[
            (name, _lengths(d["lengths"]))
            for name, d in sorted(predicate["datasets"].items())
            if d["lengths"]
        ],
        files=[_file(receipt) for receipt in predicate["partitions"]],
        notes=[
            {
                "source": n.source,
                "policy": n.reason.facts.default.value,
                "text": n.reason.message(n.found, n.expected),
            }
            for n in notes
        ],
    )


def write_page(path: Path, statement: Statement, notes: Sequence[FileNote]) -> None:
    """Write the page atomically; raises ``StorageError``."""
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, render(statement, notes).encode(), fsync=False)


def _tiles(totals: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        ("records read", f"{totals['rows_read']:,}", ""),
        ("certified", f"{totals['certified']:,}", "good"),
        ("quarantined", f"{totals['quarantined']:,}", "quarantine" if totals["quarantined"] else ""),
        ("dropped", f"{sum(totals['dropped'].values()):,}", ""),
    ]


def _schema(name: str, counts: dict[str, Any], predicate: Any) -> dict[str, str]:
    own = {n: d for n, d in predicate["datasets"].items() if d["contract"] == name}
    return {
        "name": name,
        "read": f"{counts['rows_read']:,}",
        "certified": f"{counts['certified']:,}",
        "quarantined": f"{counts['quarantined']:,}",
        "dropped": f"{sum(counts['dropped'].values()):,}",
        "samples": f"{sum(d['rows'] for n, d in own.items() if not n.endswith('.pages')):,}",
        "tokens": f"{sum(map(dataset_tokens, own.values())):,}",
    }


def _findings(predicate: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = findings_table(predicate)
    largest = max((count for _, _, count in rows), default=1)
    return [
        {
            "slug": slug,
            "title": Reason.of(slug).facts.title,
            "remedy": Reason.of(slug).facts.remedy,
            "policy": policy.value,
            "count": f"{count:,}",
            "share": round(100 * count / largest, 1),
        }
        for policy, slug, count in rows
    ]


def _lengths(histogram: dict[str, int]) -> list[dict[str, Any]]:
    largest = max(histogram.values(), default=1)
    return [
        {
            "range": f"{int(top) // 2 + 1}–{top}" if int(top) > 1 else top,
            "count": f"{count:,}",
            "share": round(100 * count / largest, 1),
        }
        for top, count in sorted(histogram.items(), key=lambda item: int(item[0]))
    ]


def _file(receipt: dict[str, Any]) -> dict[str, str | None]:
    return {
        "source": receipt["source"],
        "sheet": receipt["sheet"],
        "contract": receipt["contract"],
        "read": f"{receipt['rows_read']:,}",
        "certified": f"{receipt['certified']:,}",
        "quarantined": f"{receipt['quarantined']:,}",
        "dropped": f"{sum(receipt['dropped'].values()):,}",
    }
