"""The DVC pipeline as it stands in the repository, reproduced in a repository of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dvc", reason="needs the extra [dvc]")
pytestmark = pytest.mark.slow

COPIED = ("pipeline", "schemas", "data_samples", "dvc.yaml", ".dvcignore", ".dvc", ".gitignore")


@pytest.fixture(scope="module")
def project(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dvc") / "project"
    folder.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "tmp", "cache")
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copyfile(source, folder / name)
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


def _dvc(project: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(project.parent / "site"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_repro_makes_the_outputs_and_a_second_one_has_nothing_to_do(project: Path) -> None:
    said = _dvc(project, "repro")
    assert "sanitize" in said and "verify" in said
    metrics = json.loads((project / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["certified"] > 0 < metrics["quarantined"]
    assert (project / "clean/certificate.json").is_file()
    assert "didn't change" in _dvc(project, "repro")
    assert "certified" in _dvc(project, "metrics", "show")
    assert "file://" in _dvc(project, "plots", "show")


def test_a_changed_input_runs_both_stages_and_keeps_the_shards_of_the_others(project: Path) -> None:
    _dvc(project, "repro")
    before = {p: p.stat().st_mtime_ns for p in (project / "clean/forms/data").glob("*.arrow")}
    path = project / "data_samples/raw/reviews/winter.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(
            '{"id": "r-99", "text": "Came in the rain, dry inside.", "label": "positive", "stars": 5}\n'
        )
    said = _dvc(project, "repro")
    assert "Running stage 'sanitize'" in said and "Running stage 'verify'" in said
    assert {p: p.stat().st_mtime_ns for p in (project / "clean/forms/data").glob("*.arrow")} == before


def test_outputs_come_back_from_the_cache_and_still_verify(project: Path) -> None:
    _dvc(project, "repro")
    root = json.loads((project / "clean/certificate.json").read_bytes())["subject"]
    shutil.rmtree(project / "clean")
    _dvc(project, "checkout")
    assert json.loads((project / "clean/certificate.json").read_bytes())["subject"] == root
    done = subprocess.run([sys.executable, "-m", "pipeline", "verify", "clean"], cwd=project, check=False)
    assert done.returncode == 0
