"""The DVC pipeline as it stands in the repository, reproduced in a repository of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dvc.conftest import dvc

pytest.importorskip("dvc", reason="needs the extra [dvc]")
pytestmark = pytest.mark.slow


def test_repro_makes_the_outputs_and_a_second_one_has_nothing_to_do(project: Path) -> None:
    said = dvc(project, "repro")
    assert "sanitize" in said and "verify" in said
    metrics = json.loads((project / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["certified"] > 0 < metrics["quarantined"]
    assert (project / "clean/certificate.json").is_file()
    said = dvc(project, "repro")
    assert "Stage 'sanitize' didn't change" in said and "Running stage 'verify'" in said
    assert "certified" in dvc(project, "metrics", "show")
    assert "file://" in dvc(project, "plots", "show")


def test_a_changed_input_runs_both_stages_and_keeps_the_shards_of_the_others(project: Path) -> None:
    dvc(project, "repro")
    before = {p: p.stat().st_mtime_ns for p in (project / "clean/forms/data").glob("*.arrow")}
    path = project / "data_samples/raw/reviews/winter.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(
            '{"id": "r-99", "text": "Came in the rain, dry inside.", "label": "positive", "stars": 5}\n'
        )
    said = dvc(project, "repro")
    assert "Running stage 'sanitize'" in said and "Running stage 'verify'" in said
    assert {p: p.stat().st_mtime_ns for p in (project / "clean/forms/data").glob("*.arrow")} == before


def test_outputs_come_back_from_the_cache_and_still_verify(project: Path) -> None:
    dvc(project, "repro")
    root = json.loads((project / "clean/certificate.json").read_bytes())["subject"]
    shutil.rmtree(project / "clean")
    dvc(project, "checkout")
    assert json.loads((project / "clean/certificate.json").read_bytes())["subject"] == root
    done = subprocess.run([sys.executable, "-m", "pipeline", "verify", "clean"], cwd=project, check=False)
    assert done.returncode == 0
