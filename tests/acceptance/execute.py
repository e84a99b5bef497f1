"""Run a case through the real command, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.case import Case

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300


@dataclass(frozen=True, slots=True)
class Run:
    """What the command did."""

    code: int
    out: str
    err: str
    clean: Path

    @property
    def said(self) -> str:
        """All that reached the user."""
        return f"{self.out}\n{self.err}"

    @property
    def traceback(self) -> bool:
        """Whether a bare error of Python reached the user."""
        return "Traceback (most recent call last)" in self.said or "error of this program" in self.said


def lay_out(case: Case, place: Path, *, backwards: bool = False) -> Path:
    """Copy the inputs into ``place``, in the order of the case or the other way round."""
    raw = place / "raw"
    raw.mkdir(parents=True)
    for name in sorted(case.inputs, reverse=backwards):
        source = case.folder / name
        if source.is_file():
            (raw / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, raw / name)
    return raw


def write_schema(schema: dict[str, Any], place: Path, case: Case) -> Path:
    """The schema as a file, with template files of the case beside it."""
    place.mkdir(parents=True, exist_ok=True)
    for name in case.files:
        if name.endswith(".jinja"):
            shutil.copyfile(case.folder / name, place / name)
    path = place / "case.yaml"
    path.write_text(yaml.safe_dump(schema, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def run(raw: Path, clean: Path, schema: Path, workers: int = 1) -> Run:
    """``python -m pipeline run``."""
    command = ["run", str(raw), str(clean), "--schema", str(schema), "--workers", str(workers), "--no-fsync"]
    return _pipeline(command, clean)


def verify(clean: Path) -> Run:
    """``python -m pipeline verify``."""
    return _pipeline(["verify", str(clean)], clean)


def _pipeline(arguments: list[str], clean: Path) -> Run:
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "200",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=clean.parent,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr, clean)
