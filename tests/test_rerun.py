"""A run that finds nothing changed reads nothing and touches nothing; whatever did change, it is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline.run
from pipeline import rerun
from pipeline.certificate import cache as caches
from pipeline.certificate.cache import CacheFile
from pipeline.certificate.verify import verify
from pipeline.cli import run
from pipeline.report.events import Options, SilentWatch, Summary
from tests import runs

SCHEMA = """\
version: 1
name: notes
kind: table
files: ["*.csv"]
columns:
  id: {}
  text: {}
table: {}
quarantine: {max_rate: 0.9}
"""


class Project:
    """Three raw files, a schema, and an output folder of two runs; the third finds nothing changed."""

    def __init__(self, place: Path) -> None:
        self.place, self.raw, self.clean = place, place / "raw", place / "clean"
        self.schema = place / "notes.yaml"
        self.schema.write_text(SCHEMA)
        self.raw.mkdir()
        for number in range(3):
            rows = "".join(f"{number}-{row},text\n" for row in range(4))
            (self.raw / f"{number}.csv").write_text("id,text\n" + rows + f"{number},\n")
        (self.raw / "readme.txt.bak").write_text("of no schema")
        self.whole = 0
        time.sleep(0.02)

    @property
    def notes(self) -> CacheFile:
        """The record."""
        return CacheFile(self.clean, rerun.SUFFIX)

    def run(self, **options: Any) -> Summary:
        """Run as the command line does; ``self.whole`` counts the runs that looked at everything."""
        return run.start(Options(self.raw, self.clean, (self.schema,), fsync=False, **options), SilentWatch())

    def rerun(self) -> bool:
        """Run again; whether it was a whole run. The result must be that of a run from scratch."""
        before = self.whole
        self.run()
        whole = self.whole > before
        scratch = self.place / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        pipeline.run.run(Options(self.raw, scratch, (self.schema,), fsync=False), SilentWatch())
        assert runs.tree(self.clean) == runs.tree(scratch)
        assert verify(self.clean).ok
        return whole


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(caches, "RACY_NS", 0)
    monkeypatch.setattr(
        rerun, "_program_files", lambda _: [["the program as it is"]]
    )  # it may be edited meanwhile
    made, whole = Project(tmp_path), pipeline.run.run

    def counted(*arguments: Any) -> Summary:
        made.whole += 1
        return whole(*arguments)

    made.run()
    monkeypatch.setattr(pipeline.run, "run", counted)
    assert not made.rerun()
    made.whole = 0
    return made


def test_nothing_changed_touches_no_file(project: Project) -> None:
    def stamps() -> dict[Path, tuple[int, int, int]]:
        files = (path for path in project.clean.rglob("*"))
        return {p: (s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for p in files for s in [p.stat()]}

    before = stamps()
    summary = project.run()
    assert project.whole == 0
    assert stamps() == before
    assert (summary.outcome.unchanged, summary.outcome.written, summary.reused) == (True, 0, 3)


def test_it_says_what_a_whole_run_says(project: Project) -> None:
    """The same plan, notes and totals."""
    told: list[Any] = []

    class Told(SilentWatch):
        def planned(self, plan: Any, tasks: int) -> None:
            told.append((len(plan.inputs), [c.name for c in plan.contracts], plan.notes, plan.faults, tasks))

    options = Options(project.raw, project.clean, (project.schema,), fsync=False)
    quick, whole = run.start(options, Told()), pipeline.run.run(options, Told())
    assert project.whole == 1
    assert told[0] == told[1]
    assert len(quick.notes) == 1
    assert (quick.notes, quick.faults, quick.totals, quick.reused) == (
        whole.notes,
        whole.faults,
        whole.totals,
        whole.reused,
    )
    assert quick.outcome == whole.outcome


def _edited(project: Project) -> None:
    path = project.raw / "1.csv"
    facts = path.stat()
    path.write_text(path.read_text().replace("text\n", "next\n"))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _added(project: Project) -> None:
    (project.raw / "3.csv").write_text("id,text\n3-0,text\n")


def _removed(project: Project) -> None:
    (project.raw / "1.csv").unlink()


def _renamed(project: Project) -> None:
    (project.raw / "1.csv").rename(project.raw / "5.csv")


def _swapped(project: Project) -> None:
    for old, new in (("0.csv", "aside"), ("1.csv", "0.csv"), ("aside", "1.csv")):
        (project.raw / old).rename(project.raw / new)


def _unclaimed(project: Project) -> None:
    (project.raw / "other.json").write_text("{}")


def _schema(project: Project) -> None:
    project.schema.write_text(SCHEMA.replace("text: {}", "text: {max_characters: 100}"))


def _budget(project: Project) -> None:
    project.schema.write_text(SCHEMA.replace("0.9", "0.8"))


def _shard_lost(project: Project) -> None:
    next(project.clean.glob("notes/data/*.arrow")).unlink()


def _shard_edited(project: Project) -> None:
    path = next(project.clean.glob("notes/data/*.arrow"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _certificate_gone(project: Project) -> None:
    (project.clean / "certificate.json").unlink()


def _certificate_edited(project: Project) -> None:
    path = project.clean / "certificate.json"
    path.write_bytes(path.read_bytes().replace(b'"certified":4', b'"certified":5', 1))


@pytest.mark.parametrize(
    "change",
    [
        _edited,
        _added,
        _removed,
        _renamed,
        _swapped,
        _unclaimed,
        _schema,
        _budget,
        _shard_lost,
        _shard_edited,
        _certificate_gone,
        _certificate_edited,
    ],
)
def test_any_change_is_found(project: Project, change: Callable[[Project], None]) -> None:
    change(project)
    assert project.rerun()


@pytest.mark.parametrize(
    ("edited", "reused", "certified"),
    [("columns: {text: {required: false, blank: allow}}", 0, 15), ("description: other words", 3, 12)],
)
def test_an_edited_preset_is_found_and_what_depends_on_it_made_anew(
    project: Project, edited: str, reused: int, certified: int
) -> None:
    preset = project.place / "own.yaml"
    preset.write_text("description: words\n")
    project.schema.write_text(SCHEMA + "preset: ./own.yaml\n")
    assert project.rerun()
    assert not project.rerun()
    preset.write_text(edited + "\n")
    before = project.whole
    summary = project.run()
    assert project.whole == before + 1
    assert (summary.reused, summary.totals["certified"]) == (reused, certified)
    assert not project.rerun()


def test_a_file_touched_is_hashed_and_nothing_else_is_done(project: Project) -> None:
    (project.raw / "1.csv").touch()
    assert not project.rerun()


def test_a_damaged_pointer_is_mended(project: Project) -> None:
    (project.clean / "notes" / "state.json").write_text("{}")
    assert not project.rerun()


def test_a_shard_that_no_certificate_names_is_removed(project: Project) -> None:
    stray = project.clean / "notes" / "data" / f"part-{'0' * 20}.arrow"
    stray.write_bytes(b"")
    assert not project.rerun()
    assert not stray.exists()


@pytest.mark.parametrize("options", [{"force": True}, {"max_quarantine": 0.5}])
def test_other_options_are_a_whole_run(project: Project, options: dict[str, Any]) -> None:
    project.run(**options)
    assert project.whole == 1


@pytest.mark.parametrize("what", ["_installed_libraries", "_program_files"])
def test_other_libraries_or_another_program_are_a_whole_run(
    project: Project, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(rerun, what, lambda *_: [["other"]])
    assert project.rerun()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _open_to_all(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("damage", [_cut, _flipped, _open_to_all, Path.unlink])
def test_a_record_that_cannot_be_trusted_is_none(project: Project, damage: Callable[[Path], None]) -> None:
    damage(project.notes.path)
    assert project.rerun()


def _of_before(record: dict[str, Any], project: Project) -> None:
    """The record of before a change, with the digests of after it."""
    path = project.raw / "1.csv"
    path.write_text("id,text\n1,other\n")
    record["claimed"]["1.csv"] = caches.file_sha256(path)


def _unclaimed_source(record: dict[str, Any], project: Project) -> None:
    (project.raw / "1.csv").write_text("id,text\n1,other\n")
    del record["claimed"]["1.csv"]


def _without_form(record: dict[str, Any], project: Project) -> None:
    record["notes"] = [["no such reason", "", "", ""]]


def _without_key(record: dict[str, Any], project: Project) -> None:
    del record["listing"]


@pytest.mark.parametrize("name", ["states", "claimed", "certificate", "files", "schemas", "notes"])
@pytest.mark.parametrize("value", [None, [[]], 1.5])
def test_a_record_of_another_form_is_none(project: Project, name: str, value: object) -> None:
    project.notes.write(project.notes.read() | {name: value})
    project.run()
    assert project.whole == 1


@pytest.mark.parametrize("forge", [_of_before, _unclaimed_source, _without_form, _without_key])
def test_what_a_forged_record_says_of_inputs_is_not_believed(
    project: Project, forge: Callable[[dict[str, Any], Project], None]
) -> None:
    """Its own digest is right, but the certificate binds other inputs."""
    record = json.loads(json.dumps(project.notes.read()))
    forge(record, project)
    project.notes.write(record)
    assert project.rerun()


def test_a_schema_changed_just_before_a_run_leaves_no_record(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another edit within the same tick of the clock would leave the same times."""
    monkeypatch.setattr(caches, "RACY_NS", 10**12)
    project.schema.write_text(SCHEMA.replace("0.9", "0.8"))
    assert project.rerun()
    assert project.rerun()


def test_a_file_changed_just_now_is_hashed_each_time(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "RACY_NS", 10**12)
    hashed: list[str] = []
    digest = caches.file_sha256
    monkeypatch.setattr(caches, "file_sha256", lambda path: hashed.append(path.name) or digest(path))  # type: ignore[func-returns-value]
    (project.raw / "1.csv").touch()
    for _ in range(2):
        hashed.clear()
        project.run()
        assert "1.csv" in hashed
    assert project.whole == 0


def test_a_run_with_a_file_that_cannot_be_read_leaves_no_record(project: Project) -> None:
    (project.raw / "3.csv").write_bytes(b"\x00\x01\x02\x03" * 100)
    for _ in range(2):
        assert project.run().faults
    assert project.whole == 2


def test_nothing_heavy_is_imported_before_a_change_is_found() -> None:
    code = (
        "import sys, pipeline.cli.run, pipeline.rerun\n"
        "heavy = {'numpy', 'polars', 'pyarrow', 'pandera', 'pydantic', 'transformers', 'datasets'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
