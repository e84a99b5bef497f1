"""A rerun does exactly what depends on a change, and its result is that of a run from scratch, byte for byte."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pipeline.run
from pipeline.certificate import cache as caches
from pipeline.certificate.folder import read_certificate
from pipeline.certificate.verify import verify
from pipeline.cli import run
from pipeline.report.events import SilentWatch
from pipeline.run import Options, Summary
from pipeline.worker import Task
from tests import runs

CHAT = """\
version: 1
name: answers
kind: chat
files: ["chat/*.jsonl"]
chat:
  source: {format: columns, prompt: question, answer: answer, system: Be brief.}
  max_tokens: 256
tokenizer: {path: tokenizer}
quarantine: {max_rate: 0.9}
"""
TABLE = """\
version: 1
name: notes
kind: table
files: ["table/*.csv"]
columns:
  id: {}
  text: {}
table: {}
quarantine: {max_rate: 0.9}
output: {shard_rows: 7, batch_rows: 3}
"""


class Project:
    """Raw files, schemas and a tokenizer that a test may change, and an output folder that follows."""

    def __init__(self, place: Path, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.raw = place, place / "raw"
        self.done: list[str] = []
        self.entry = pipeline.run.run
        shutil.copytree(samples / "tokenizers" / "tiny-llama3", place / "tokenizer")
        self.chat, self.table = place / "answers.yaml", place / "notes.yaml"
        self.chat.write_text(CHAT)
        self.table.write_text(TABLE)
        for number in range(3):
            rows = [
                {"question": f"What is {number} and {row}?", "answer": f"It is {row}."} for row in range(5)
            ]
            self.write(
                f"chat/{number}.jsonl", "".join(json.dumps(row) + "\n" for row in [*rows, {"question": ""}])
            )
            self.write(
                f"table/{number}.csv", "id,text\n" + "".join(f"{number}-{row},text\n" for row in range(9))
            )
        process = pipeline.run.process_partition

        def recorded(task: Task, *rest: object) -> object:
            self.done.append(task.partition.source)
            return process(task, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(pipeline.run, "process_partition", recorded)

    def write(self, name: str, text: str) -> None:
        (self.raw / name).parent.mkdir(parents=True, exist_ok=True)
        (self.raw / name).write_text(text)

    def edit(self, path: Path, find: str, put: str) -> None:
        text = path.read_text()
        assert find in text
        path.write_text(text.replace(find, put))

    def run(self, clean: str = "clean", **options: bool) -> Summary:
        """Run; ``self.done`` then lists the sources that were read."""
        self.done.clear()
        schemas = (self.chat, self.table)
        return self.entry(
            Options(self.raw, self.place / clean, schemas, fsync=False, **options), SilentWatch()
        )  # type: ignore[arg-type]

    def rerun(self) -> list[str]:
        """Run again; the sources that were read. The result must be that of a run from scratch."""
        self.run()
        done = sorted(self.done)
        shutil.rmtree(self.place / "scratch", ignore_errors=True)
        self.run("scratch")
        assert runs.tree(self.place / "clean") == runs.tree(self.place / "scratch")
        assert verify(self.place / "clean").ok
        return done


CHATS = ["chat/0.jsonl", "chat/1.jsonl", "chat/2.jsonl"]
TABLES = ["table/0.csv", "table/1.csv", "table/2.csv"]


@pytest.fixture(params=["whole", "quick"])
def project(
    tmp_path: Path, samples: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Project:
    """A project after its first run. Both ways to run must give the same: the quick one looks first whether anything
    changed at all."""
    made = Project(tmp_path, samples, monkeypatch)
    if request.param == "quick":
        monkeypatch.setattr(caches, "RACY_NS", 0)
        made.entry = run.start
    made.run()
    assert sorted(made.done) == [*CHATS, *TABLES]
    return made


def test_nothing_changed_reads_nothing_and_touches_no_file(project: Project) -> None:
    clean = project.place / "clean"
    before = {path: path.stat() for path in clean.rglob("*") if path.is_file()}
    summary = project.run()
    assert summary.outcome.unchanged
    assert summary.reused == 6
    assert project.done == []
    after = {path: path.stat() for path in clean.rglob("*") if path.is_file()}
    assert {p: (s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for p, s in after.items()} == {
        p: (s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for p, s in before.items()
    }


def test_a_touched_file_is_not_read_again(project: Project) -> None:
    (project.raw / "table" / "1.csv").touch()
    assert project.rerun() == []


def test_a_changed_file_is_read_alone(project: Project) -> None:
    project.write("table/1.csv", "id,text\n1,other\n")
    assert project.rerun() == ["table/1.csv"]


def test_an_added_file_is_read_alone(project: Project) -> None:
    project.write("table/0a.csv", "id,text\n1,other\n")
    assert project.rerun() == ["table/0a.csv"]


@pytest.mark.parametrize(
    ("library", "done"),
    [
        ("polars", [*CHATS, *TABLES]),
        ("tokenizers", CHATS),
        ("jinja2", CHATS),
        ("pillow", []),  # no schema here names page images
        ("datasets", []),
        ("transformers", []),
    ],
)
def test_another_library_makes_anew_what_it_can_change(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, done: list[str]
) -> None:
    root = read_certificate(project.place / "clean").root
    facts = tmp_path / "installed" / f"{library}-999.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {library}\nVersion: 999.0\n")
    monkeypatch.syspath_prepend(facts.parent)
    assert project.rerun() == done
    assert (read_certificate(project.place / "clean").root == root) == (not done)


def test_a_removed_file_is_gone_and_nothing_is_read(project: Project) -> None:
    (project.raw / "chat" / "1.jsonl").unlink()
    assert project.rerun() == []


def test_a_renamed_file_is_read_under_its_new_name(project: Project) -> None:
    """Every sample carries the name of its file."""
    (project.raw / "chat" / "1.jsonl").rename(project.raw / "chat" / "9.jsonl")
    assert project.rerun() == ["chat/9.jsonl"]


def test_two_files_that_swap_names_are_both_read(project: Project) -> None:
    first, second, aside = (project.raw / "table" / name for name in ("0.csv", "1.csv", "aside"))
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    assert project.rerun() == ["table/0.csv", "table/1.csv"]


def test_an_earlier_content_that_comes_back_is_read_again(project: Project) -> None:
    before = (project.raw / "table" / "1.csv").read_text()
    tree = runs.tree(project.place / "clean")
    project.write("table/1.csv", "id,text\n1,other\n")
    assert project.rerun() == ["table/1.csv"]
    project.write("table/1.csv", before)
    assert project.rerun() == ["table/1.csv"]
    assert runs.tree(project.place / "clean") == tree


def test_forced_everything_is_read_and_nothing_changes(project: Project) -> None:
    tree = runs.tree(project.place / "clean")
    assert project.run(force=True).outcome.unchanged
    assert sorted(project.done) == [*CHATS, *TABLES]
    assert runs.tree(project.place / "clean") == tree


def _parameter(project: Project) -> None:
    project.edit(project.chat, "max_tokens: 256", "max_tokens: 128")


def _system_prompt(project: Project) -> None:
    project.edit(project.chat, "Be brief.", "Be short.")


def _policy(project: Project) -> None:
    project.chat.write_text(project.chat.read_text() + "policies: {duplicate_row: quarantine}\n")


def _tokenizer(project: Project) -> None:
    path = project.place / "tokenizer" / "tokenizer.json"
    value = json.loads(path.read_text())
    value["normalizer"] = {"type": "NFC"} if value.get("normalizer") is None else None
    path.write_text(json.dumps(value))


def _template(project: Project) -> None:
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        path = project.place / "tokenizer" / name
        if path.exists() and "start_header_id" in path.read_text():
            project.edit(path, "<|start_header_id|>", "<|start_header_id|> ")
            return
    raise AssertionError("no template to change")


def _shard_rows(project: Project) -> None:
    project.edit(project.table, "shard_rows: 7", "shard_rows: 5")


def _column(project: Project) -> None:
    project.edit(project.table, "text: {}", "text: {max_characters: 100}")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_parameter, CHATS),
        (_system_prompt, CHATS),
        (_policy, CHATS),
        (_tokenizer, CHATS),
        (_template, CHATS),
        (_shard_rows, TABLES),
        (_column, TABLES),
    ],
)
def test_exactly_what_depends_on_a_change_is_read(
    project: Project, change: Callable[[Project], None], expected: list[str]
) -> None:
    change(project)
    assert project.rerun() == expected


def _description(project: Project) -> None:
    project.table.write_text(project.table.read_text() + "description: other words\n")


def _budget(project: Project) -> None:
    project.edit(project.table, "max_rate: 0.9", "max_rate: 0.8")


def _comment(project: Project) -> None:
    project.table.write_text("# a comment\n" + project.table.read_text())


def _truncation(project: Project) -> None:
    """What one truncating call leaves in the tokenizer's file."""
    path = project.place / "tokenizer" / "tokenizer.json"
    value = json.loads(path.read_text())
    value["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    path.write_text(json.dumps(value))


@pytest.mark.parametrize("change", [_description, _budget, _comment, _truncation])
def test_what_decides_no_bytes_reads_nothing(project: Project, change: Callable[[Project], None]) -> None:
    change(project)
    assert project.rerun() == []


def test_other_semantics_read_everything(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.SEMANTICS", pipeline.SEMANTICS + 1)
    assert project.rerun() == [*CHATS, *TABLES]


def test_another_version_of_a_library_that_can_change_bytes_reads_everything(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.metadata

    project.entry = pipeline.run.run  # the installed files did not change
    version = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "99" if name == "polars" else version(name)
    )
    assert project.rerun() == [*CHATS, *TABLES]


def test_a_shard_that_was_lost_is_made_again_from_its_file_alone(project: Project) -> None:
    certificate = json.loads((project.place / "clean" / "certificate.json").read_bytes())["predicate"]
    (receipt,) = (r for r in certificate["partitions"] if r["source"] == "table/1.csv")
    (project.place / "clean" / "notes" / "data" / receipt["parts"]["notes"][0]).unlink()
    assert project.rerun() == ["table/1.csv"]


def test_repeats_across_files_follow_what_stays(project: Project) -> None:
    """The first in the order of the inputs stays; when it goes, the next takes its place, as from scratch."""
    _policy(project)
    same = json.dumps({"question": "Twice?", "answer": "Yes, twice."}) + "\n"
    for number in range(3):
        path = project.raw / "chat" / f"{number}.jsonl"
        path.write_text(path.read_text() + same)
    project.rerun()
    totals = project.run().totals
    assert totals["reasons"]["duplicate_row"] == 2
    (project.raw / "chat" / "0.jsonl").unlink()
    assert "chat/1.jsonl" in project.rerun()
    assert project.run().totals["reasons"]["duplicate_row"] == 1
