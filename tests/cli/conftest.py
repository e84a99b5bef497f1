"""The command line, called in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.cli.app import main


@dataclass(frozen=True)
class Said:
    """Exit code and output of one call."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]

TABLE = """\
version: 1
name: notes
kind: table
files: ["**/*.csv", "**/*.jsonl"]
columns:
  id: {}
  text: {}
  label: {allowed: [pos, neg], required: false}
table: {}
"""


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run one command; a traceback is never right."""
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: object) -> Said:
        monkeypatch.setattr("sys.argv", ["pipeline", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return Said(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A raw folder with one good and one bad row."""
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "a.csv").write_text("id,text,label\n1,good,pos\n2,,neg\n3,fine,neg\n")
    return folder


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """The schema of ``raw``."""
    path = tmp_path / "notes.yaml"
    path.write_text(TABLE)
    return path
