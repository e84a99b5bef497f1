"""A whole run, in this process, and all that it found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.plan import Plan
from pipeline.report.events import SilentWatch
from pipeline.run import Options, Summary, run
from tests.reasons.case import Case, Link, Slugs

DATASETS = ("data", "data.train", "data.eval")
COMMON = {"version": 1, "name": "data", "quarantine": {"max_rate": 1.0}}


@dataclass(slots=True)
class Outcome:
    """What a run found.

    Attributes:
        found: slugs by place: ``file:row`` for a record, the file's name for what is said of a file.
        certified, quarantined: places of the records.
        counted: slugs of what is counted over all records and noted on none.
    """

    found: dict[str, set[str]] = field(default_factory=dict)
    certified: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)

    def note(self, place: str, slugs: set[str] | Slugs) -> None:
        """Add findings on one place."""
        if slugs:
            self.found.setdefault(place, set()).update(slugs)


class Meddler(SilentWatch):
    """Does something to the raw folder between the plan and the reading."""

    def __init__(self, case: Case, raw: Path) -> None:
        self._case, self._raw = case, raw

    def planned(self, plan: Plan, tasks: int) -> None:
        if self._case.meddle is not None:
            self._case.meddle(self._raw)


def outcome_of(case: Case, folder: Path, policies: Mapping[str, str] | None = None) -> Outcome:
    """Write the raw files and the schema, run, and read everything back from the output folder."""
    schema = {**case.schema, "policies": {**case.policies, **(policies or {})}}
    raw = written(folder, case.files)
    summary = sanitized(folder, schema, Meddler(case, raw))
    repeated = summary.outcome.statement.predicate["repeated"]
    outcome = Outcome(counted={slug for counts in repeated.values() for slug in counts})
    for note in {*summary.notes, *summary.faults}:
        outcome.note(note.source, {note.reason.slug})
    for row in (row for name in DATASETS for row in _rows(folder / "clean" / name / "data")):
        place = f"{row['source']}:{row['row']}"
        outcome.certified.add(place)
        outcome.note(place, set(row["notes"]) - outcome.counted)  # repeats are counted apart
    for row in _rows(folder / "clean" / "quarantine" / "data"):
        place = f"{row['source']}:{row['row']}"
        outcome.quarantined.add(place)
        outcome.note(place, {reason["reason"] for reason in row["reasons"]})
    return outcome


def written(folder: Path, files: Mapping[str, bytes | str | Link]) -> Path:
    """The raw folder with these files."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    for name, content in files.items():
        path = raw / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            path.symlink_to(content.target)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return raw


def sanitized(folder: Path, schema: Mapping[str, Any], watch: SilentWatch) -> Summary:
    """Run over the folder's raw files. JSON is YAML."""
    path = folder / "schema.yaml"
    path.write_text(json.dumps({"files": ["*.jsonl"], **COMMON, **schema}))
    return run(Options(folder / "raw", folder / "clean", (path,), fsync=False), watch)


def _rows(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.arrow")):
        with pa.ipc.open_stream(path.read_bytes()) as stream:
            rows += stream.read_all().to_pylist()
    return rows
