"""A sheet that cannot be read costs that sheet and the exit code; step by step as from scratch."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.certificate.verify import verify
from pipeline.report.events import SilentWatch
from pipeline.run import Options, Summary, run
from tests.readers.handmade import Tab, table, write

SCHEMA = """\
version: 1
name: {name}
kind: table
files: ["**/*.xlsx"]
read: {{sheets: {sheets}}}
columns:
  id: {{}}
  {column}: {{}}
table: {{}}
"""
TABS = (
    Tab("first", table(("id", "text"), ("a", "one"), ("b", "two"))),
    Tab("other", table(("id", "label"), ("c", "three"))),
    Tab("last", table(("id", "text"), ("d", "four"))),
    Tab("hidden", table(("id", "text"), ("e", "five")), state="hidden"),
)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    write(tmp_path / "raw/book.xlsx", *TABS)
    return tmp_path / "raw"


def _run(raw: Path, clean: Path, **columns: tuple[str, str]) -> Summary:
    """Run with one schema a name, each with its second column and its sheets."""
    schemas = []
    for name, (column, sheets) in columns.items():
        schemas.append(raw.parent / f"{name}.yaml")
        schemas[-1].write_text(SCHEMA.format(name=name, column=column, sheets=sheets))
    return run(Options(raw, clean, tuple(schemas)), SilentWatch())


def _certificate(clean: Path) -> bytes:
    return (clean / "certificate.json").read_bytes()


def test_the_other_sheets_are_certified_and_the_lost_one_is_named(raw: Path, tmp_path: Path) -> None:
    summary = _run(raw, tmp_path / "clean", texts=("text", "visible"))
    assert summary.totals["certified"] == 3
    assert [str(fault) for fault in summary.faults] == [
        "book.xlsx: no header row with 'text'; found 'id', 'label' in the sheet 'other'"
    ]
    assert verify(tmp_path / "clean", strict=True).ok


def test_it_is_said_again_when_nothing_is_read_again(raw: Path, tmp_path: Path) -> None:
    first = _run(raw, tmp_path / "clean", texts=("text", "visible"))
    before = _certificate(tmp_path / "clean")
    again = _run(raw, tmp_path / "clean", texts=("text", "visible"))
    assert (again.reused, again.outcome.unchanged) == (1, True)
    assert (again.faults, again.notes) == (first.faults, first.notes)
    assert _certificate(tmp_path / "clean") == before


def test_what_was_said_for_another_schema_does_not_stay(raw: Path, tmp_path: Path) -> None:
    clean, scratch = tmp_path / "clean", tmp_path / "scratch"
    steps: list[dict[str, tuple[str, str]]] = [
        {"texts": ("text", "visible"), "labels": ("label", "visible")},
        {"texts": ("text", "visible"), "labels": ("label", "[other]")},
        {"texts": ("text", "visible")},
        {"texts": ("text", "visible"), "labels": ("label", "first_visible")},
        {"texts": ("text", "[first, last, hidden]")},
    ]
    for number, schemas in enumerate(steps):
        step = _run(raw, clean, **schemas)
        whole = _run(raw, scratch / str(number), **schemas)
        assert _certificate(clean) == _certificate(scratch / str(number))
        assert sorted(map(str, set(step.faults))) == sorted(map(str, set(whole.faults)))
