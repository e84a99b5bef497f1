"""A DVC repository of its own around the pipeline as it stands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

COPIED = ("pipeline", "schemas", "data_samples", "dvc.yaml", ".dvcignore", ".dvc", ".gitignore")


def make_project(root: Path, folder: Path) -> Path:
    """Copy what a user has into a new git repository."""
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


@pytest.fixture(scope="module")
def make(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return lambda name: make_project(root, tmp_path_factory.mktemp("dvc") / name)


@pytest.fixture(scope="module")
def project(make: Callable[[str], Path]) -> Path:
    return make("project")


def dvc(project: Path, *arguments: str, code: int = 0) -> str:
    """What DVC says."""
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
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout
