"""Runs of a preset over raw files, through the whole job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from pipeline.run import Options, run

Row = dict[str, Any]


class Silent:
    """A watch that says nothing."""

    def planned(self, plan: Any, tasks: int) -> None: ...
    def batch(self, progress: Any) -> None: ...
    def partition(self, done: Any) -> None: ...


@dataclass(frozen=True)
class Result:
    """What came out."""

    samples: list[Row]
    quarantine: list[Row]
    pages: list[Row]
    totals: dict[str, Any]

    def records(self) -> list[Row]:
        """The kept records of the first windows: words, bboxes, labels."""
        import json

        return [json.loads(row["record"]) for row in self.samples if row["window"] == 0]

    def reasons(self) -> Counter[str]:
        """Records by reason."""
        return Counter(slug for row in self.quarantine for slug in {r["reason"] for r in row["reasons"]})


Run = Callable[..., Result]


@pytest.fixture
def run_preset(tmp_path: Path, samples: Path) -> Run:
    """``run_preset(name, files=[…], **keys)`` over ``tmp_path / "raw"``."""

    def through(preset: str, files: list[str], **own: Any) -> Result:
        schema = {
            "version": 1,
            "preset": preset,
            "name": "docs",
            "files": files,
            "tokenizer": {"path": str(samples / "tokenizers/tiny-layoutlmv3")},
            "model": {"family": "layoutlmv3"},
            "output": {"keep_record": True},
            "quarantine": {"max_rate": 1.0},
            "ignore": ["**/*.*g"],
            **own,
        }
        path = tmp_path / "schema.yaml"
        path.write_text(yaml.safe_dump(schema))
        clean = tmp_path / "clean"
        summary = run(Options(tmp_path / "raw", clean, (path,), fsync=False), Silent())
        assert not summary.faults, summary.faults
        totals = summary.totals
        dropped = totals["dropped"]
        gone = sum(dropped.values()) if isinstance(dropped, dict) else dropped
        assert totals["rows_read"] == totals["certified"] + totals["quarantined"] + gone
        return Result(
            _rows(clean / "docs" / "data"),
            _rows(clean / "quarantine" / "docs"),
            _rows(clean / "docs.pages" / "data"),
            totals,
        )

    return through


def _rows(folder: Path) -> list[Row]:
    rows: list[Row] = []
    for path in sorted(folder.glob("*.arrow")):
        with pa.memory_map(str(path)) as source:
            rows += pa.ipc.open_stream(source).read_all().to_pylist()
    return sorted(rows, key=lambda row: (row["source"], row.get("row", 0), row.get("window", 0)))
