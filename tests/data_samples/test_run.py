"""The shipped samples through the real command: what was planted is found, and nothing else."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

Place = tuple[str, str, int]


def _pipeline(root: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline", *map(str, arguments)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def clean(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples") / "clean"
    done = _pipeline(root, "run", "data_samples/raw", folder, "--no-fsync")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def predicate(clean: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((clean / "certificate.json").read_bytes())["predicate"]
    return found


def _rows(clean: Path, predicate: dict[str, Any], *, quarantined: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for file in predicate["files"]:
        if file["folder"].startswith("quarantine/") == quarantined and ".pages" not in file["folder"]:
            with pa.memory_map(str(clean / file["folder"] / file["name"])) as source:
                rows += pa.ipc.open_stream(source).read_all().to_pylist()
    return rows


def _place(row: dict[str, Any]) -> Place:
    return row["source"], row["sheet"] or "", row["row"]


@pytest.fixture(scope="module")
def planted(samples: Path) -> list[tuple[Place, str, str]]:
    with (samples / "faults.csv").open(encoding="utf-8") as file:
        return [
            ((r["source"], r["sheet"], int(r["row"])), r["reason"], r["outcome"])
            for r in csv.DictReader(file)
        ]


def test_exactly_the_planted_rows_are_set_aside_and_for_the_planted_reason(
    clean: Path, predicate: dict[str, Any], planted: list[tuple[Place, str, str]]
) -> None:
    found = {
        _place(row): {r["reason"] for r in row["reasons"]}
        for row in _rows(clean, predicate, quarantined=True)
    }
    wanted = {place: reason for place, reason, outcome in planted if outcome == "quarantine"}
    assert set(found) == set(wanted)
    assert {place: found[place] for place, reason in wanted.items() if reason not in found[place]} == {}


def test_planted_repairs_are_certified_with_a_note(
    clean: Path, predicate: dict[str, Any], planted: list[tuple[Place, str, str]]
) -> None:
    notes = {_place(row): row["notes"] for row in _rows(clean, predicate, quarantined=False)}
    missing = [(p, r) for p, r, outcome in planted if outcome != "quarantine" and r not in notes.get(p, [])]
    assert missing == []


def test_every_file_is_accounted_for(predicate: dict[str, Any], samples: Path) -> None:
    totals = predicate["totals"]
    assert totals["rows_read"] == totals["certified"] + totals["quarantined"] + sum(
        totals["dropped"].values()
    )
    read = {part["source"] for part in predicate["partitions"]}
    named = {source for _, source, *_ in predicate["notes"]}
    images = {str(p.relative_to(samples / "raw")) for p in (samples / "raw/forms/images").iterdir()}
    everything = {str(p.relative_to(samples / "raw")) for p in (samples / "raw").rglob("*") if p.is_file()}
    assert read | named | images == everything
    assert {reason for reason, *_ in predicate["notes"]} >= {"file_unclaimed", "file_litter", "sheet_hidden"}


def test_the_folder_opens_with_plain_datasets(clean: Path, predicate: dict[str, Any]) -> None:
    from datasets import load_from_disk

    sets = load_from_disk(str(clean))
    assert set(sets) >= {"forms", "clinical", "support", "reviews"}
    sources = Counter(
        source.split("/")[0] for name in ("forms", "clinical") for source in sets[name]["source"]
    )
    assert set(sources) == {"forms", "clinical"}
    assert all(row > 0 for row in sets["clinical"]["row"])


def test_a_rerun_changes_nothing_and_the_certificate_holds(root: Path, clean: Path) -> None:
    before = (clean / "certificate.json").read_bytes()
    assert _pipeline(root, "run", "data_samples/raw", clean, "--no-fsync", "--force").returncode == 0
    assert (clean / "certificate.json").read_bytes() == before
    assert _pipeline(root, "verify", clean).returncode == 0


def test_no_text_of_a_cell_reaches_the_terminal(root: Path, tmp_path: Path) -> None:
    done = _pipeline(root, "run", "data_samples/raw", tmp_path / "clean", "--no-fsync")
    said = done.stdout + done.stderr
    assert not any(text in said for text in ("Broke on day one", "Havelmoor", "Gait slightly", "kiosk"))
