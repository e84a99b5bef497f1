"""What a result stands on is seen to change when it changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline import rerun
from pipeline.certificate import cache as caches
from pipeline.report.events import Options
from pipeline.schema.load import load_schema


def fingerprint(**facts: object) -> str:
    options = {"raw": Path("raw"), "clean": Path("clean"), "schemas": (Path("a.yaml"),)} | facts
    return rerun.program_fingerprint(Options(**options))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of one file and an environment of one library."""
    for folder in ("program", "program/__pycache__", "place", "place/polars-1.0.dist-info"):
        (tmp_path / folder).mkdir()
    (tmp_path / "program" / "__init__.py").write_text("")
    monkeypatch.setattr("pipeline.__file__", str(tmp_path / "program" / "__init__.py"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "place"), str(tmp_path / "nowhere")])


def test_the_same_circumstances_have_one_digest(tmp_path: Path) -> None:
    before = fingerprint()
    (tmp_path / "program" / "__pycache__" / "x.pyc").write_text("")
    assert fingerprint() == before
    assert fingerprint(workers=8, engine="ray", fsync=False) == before


@pytest.mark.parametrize(
    "facts",
    [{"raw": Path("other")}, {"schemas": (Path("b.yaml"),)}, {"schemas": ()}, {"max_quarantine": 0.5}],
)
def test_other_options_have_another(facts: dict[str, object]) -> None:
    assert fingerprint(**facts) != fingerprint()


def test_a_changed_program_has_another(tmp_path: Path) -> None:
    before = fingerprint()
    (tmp_path / "program" / "__init__.py").write_text("x = 1")
    assert fingerprint() != before


def test_another_version_of_a_library_has_another(tmp_path: Path) -> None:
    before = fingerprint()
    (tmp_path / "place" / "polars-1.0.dist-info").rename(tmp_path / "place" / "polars-1.1.dist-info")
    assert fingerprint() != before


SCHEMA = """\
version: 1
name: x
kind: chat
files: ["*"]
chat:
  source: {format: columns, prompt: q, answer: a}
  template: {file: chat.jinja}
  max_tokens: 64
tokenizer: {path: tokenizer}
model: {config: model/config.json}
"""


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA)
    (tmp_path / "chat.jinja").write_text("x")
    for folder in ("tokenizer", "model"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}")
    return path


def _states(schema: Path) -> dict[str, rerun.FileState]:
    named = rerun.files_of_schemas([load_schema(schema)])
    assert named is not None
    return rerun.file_states(named)


@pytest.mark.parametrize("preset", ["./own.yaml", "../own.yaml"])
def test_the_file_of_a_preset_is_looked_at(schema: Path, preset: str) -> None:
    own = schema.parent / preset
    own.write_text("ignore: [a]\n")
    schema.write_text(SCHEMA + f"preset: {preset}\n")
    looked = _states(schema)
    assert looked == _states(schema)
    own.write_text("ignore: [a, b]\n")
    assert _states(schema) != looked


@pytest.mark.parametrize(
    "name",
    [
        "schema.yaml",
        "chat.jinja",
        "tokenizer/config.json",
        "tokenizer/chat_template.jinja",
        "model/config.json",
        "model/model.safetensors",
    ],
)
def test_every_file_that_a_schema_names_is_looked_at(schema: Path, name: str) -> None:
    states = _states(schema)
    assert states == _states(schema)
    path = schema.parent / name
    path.write_text((path.read_text() if path.exists() else "") + " ")
    assert _states(schema) != states


def test_a_tokenizer_of_the_hub_is_not_watched(schema: Path) -> None:
    schema.write_text(SCHEMA.replace("{path: tokenizer}", '{hub: some/name, revision: "' + "0" * 40 + '"}'))
    assert rerun.files_of_schemas([load_schema(schema)]) is None


def test_what_changed_just_now_or_is_not_there_is_not_settled(
    schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "RACY_NS", 0)
    assert rerun.are_settled(_states(schema))
    (schema.parent / "chat.jinja").unlink()
    assert not rerun.are_settled(_states(schema))
    (schema.parent / "chat.jinja").write_text("x")
    monkeypatch.setattr(caches, "RACY_NS", 10**12)
    assert not rerun.are_settled(_states(schema))
