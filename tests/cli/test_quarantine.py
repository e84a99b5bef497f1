"""Looking at what was set aside, also by a run that was refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import Exit
from tests.cli.conftest import TABLE, Call

GOOD = '{"id": "a", "text": "x"}\n'
BAD = '{"id": "b", "text": ""}\n{"id": "", "text": "y"}\n'


def shown(call: Call, clean: object, *options: str) -> list[tuple[str, int]]:
    """Source and row of each record."""
    said = call("quarantine", "show", clean, "--json", *options)
    assert said.code == Exit.OK
    rows = [json.loads(line) for line in said.out.splitlines()]
    return [(row["source"], row["row"]) for row in rows]


@pytest.fixture
def job(tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    raw, schema = tmp_path / "raw", tmp_path / "notes.yaml"
    raw.mkdir()
    schema.write_text(TABLE)
    (raw / "b.jsonl").write_text(GOOD * 3)
    (raw / "a.jsonl").write_text(BAD)
    return raw, ("--schema", str(schema), "--max-quarantine", "0.1")


def test_a_first_run_that_is_refused_shows_its_records(
    call: Call, tmp_path: Path, job: tuple[Path, tuple[str, ...]]
) -> None:
    raw, options = job
    assert call("run", raw, tmp_path / "clean", *options).code == Exit.GATE
    assert shown(call, tmp_path / "clean") == [("a.jsonl", 1), ("a.jsonl", 2)]
    assert "was refused" in call("quarantine", "show", tmp_path / "clean").err
    assert call("quarantine", "show", tmp_path / "clean", "--published").code == Exit.INPUT


def test_a_refused_run_is_shown_until_one_is_published(
    call: Call, tmp_path: Path, job: tuple[Path, tuple[str, ...]]
) -> None:
    raw, options = job
    clean = tmp_path / "clean"
    assert call("run", raw, clean, *options[:2], "--max-quarantine", "1").code == Exit.OK
    (raw / "c.jsonl").write_text(BAD)
    assert call("run", raw, clean, *options).code == Exit.GATE
    assert shown(call, clean) == [("a.jsonl", 1), ("a.jsonl", 2), ("c.jsonl", 1), ("c.jsonl", 2)]
    assert shown(call, clean, "--published") == [("a.jsonl", 1), ("a.jsonl", 2)]
    (raw / "c.jsonl").unlink()
    (raw / "a.jsonl").write_text(BAD + GOOD * 30)
    assert call("run", raw, clean, *options).code == Exit.OK
    assert shown(call, clean) == [("a.jsonl", 1), ("a.jsonl", 2)]
    assert "refused" not in call("quarantine", "show", clean).err


def test_an_index_that_names_files_elsewhere_is_not_followed(
    call: Call, tmp_path: Path, job: tuple[Path, tuple[str, ...]]
) -> None:
    raw, options = job
    clean = tmp_path / "clean"
    assert call("run", raw, clean, *options).code == Exit.GATE
    (clean / ".refused" / "quarantine.json").write_text('{"../..": ["../secret.arrow"], "notes": []}')
    assert shown(call, clean) == []
