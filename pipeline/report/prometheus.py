"""Metrics for the textfile collector of Prometheus: gauges of the last run, written atomically.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pipeline.errors import Exit
from pipeline.report.events import SilentWatch, exit_of
from pipeline.report.metrics import metrics_of
from pipeline.shards.files import storage_errors, write_atomic

if TYPE_CHECKING:
    from pipeline.report.events import Options, Summary

Sample = tuple[Mapping[str, str], float]

HELP = {
    "cleanroom_run_exit_code": "Exit code of the last run.",
    "cleanroom_run_end_timestamp_seconds": "When the last run ended.",
    "cleanroom_run_published": "Whether the last run published, or found everything unchanged.",
    "cleanroom_run_seconds": "Wall-clock seconds of the last run, by step.",
    "cleanroom_records": "Records read by the certified run, by schema and what became of them.",
    "cleanroom_records_by_reason": "Records by schema, reason and policy.",
    "cleanroom_samples": "Samples of each data set.",
    "cleanroom_tokens": "Tokens of each schema.",
    "cleanroom_files": "Input files of the last run: reused from the run before, or faulty.",
    "cleanroom_certificate_info": "Root digest of the certificate.",
}


class Prometheus(SilentWatch):
    """Writes the file when a run ends; raises ``StorageError``. For a run that published nothing, it holds only the
    exit code and the time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended = False

    def end(self, options: Options, summary: Summary, code: Exit) -> None:
        self._ended = True
        self._write({**_run(code, published=True), **_result(summary)})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._ended:
            self._write(_run(exit_of(error), published=False))

    def _write(self, metrics: Mapping[str, list[Sample]]) -> None:
        text = "".join(line + "\n" for name, samples in metrics.items() for line in _lines(name, samples))
        with storage_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path, text.encode(), fsync=False)


def _run(code: int, *, published: bool) -> dict[str, list[Sample]]:
    return {
        "cleanroom_run_exit_code": [({}, code)],
        "cleanroom_run_end_timestamp_seconds": [({}, round(time.time(), 3))],
        "cleanroom_run_published": [({}, int(published))],
    }


def _result(summary: Summary) -> dict[str, list[Sample]]:
    metrics = metrics_of(summary.outcome.statement)
    records: list[Sample] = []
    reasons: list[Sample] = []
    samples: list[Sample] = []
    tokens: list[Sample] = []
    for schema, counts in metrics["schemas"].items():
        records += [
            ({"schema": schema, "outcome": name}, counts[name])
            for name in ("certified", "quarantined", "dropped")
        ]
        for policy, key in (("quarantine", "reasons"), ("repair", "repairs"), ("flag", "flags")):
            reasons += [
                ({"schema": schema, "reason": slug, "policy": policy}, count)
                for slug, count in counts[key].items()
            ]
        samples += [({"dataset": name}, rows) for name, rows in counts["samples"].items()]
        tokens.append(({"schema": schema}, counts["tokens"]))
    return {
        "cleanroom_run_seconds": [({"step": s}, round(v, 3)) for s, v in summary.seconds.items()],
        "cleanroom_records": records,
        "cleanroom_records_by_reason": reasons,
        "cleanroom_samples": samples,
        "cleanroom_tokens": tokens,
        "cleanroom_files": [
            ({"state": "reused"}, summary.reused),
            ({"state": "faulty"}, len(summary.faults)),
        ],
        "cleanroom_certificate_info": [({"root": metrics["root"]}, 1)],
    }


def _lines(name: str, samples: list[Sample]) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP {name} {HELP[name]}"
    yield f"# TYPE {name} gauge"
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
