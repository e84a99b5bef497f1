"""A refused run names the files that were not read, and what those hold that gave no record."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import GateError
from pipeline.findings import FileNote
from pipeline.reasons import Reason
from pipeline.run import MOST_FILES, naming_files
from tests.test_run import sanitize, write_csv


def refused(folder: Path) -> GateError:
    with pytest.raises(GateError) as caught:
        sanitize(folder)
    return caught.value


def test_files_that_hold_no_record_are_named(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text("id,text,age\n")
    (tmp_path / "raw" / "b.csv").write_text("")
    error = refused(tmp_path)
    assert "a.csv: holds no record" in error.found
    assert "b.csv: holds no text" in error.found


def test_over_the_budget_unreadable_files_are_named_and_empty_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    write_csv(tmp_path / "raw" / "a.csv", [("", "1"), ("", "2")])
    (tmp_path / "raw" / "b.csv").write_bytes(b"id,text,age\n1,\xff,2\n")
    (tmp_path / "raw" / "c.csv").write_text("")
    error = refused(tmp_path)
    assert error.found.startswith("2 of 2 records quarantined")
    assert "b.csv: bytes that are not UTF-8" in error.found
    assert "c.csv" not in error.found


def test_records_alone_add_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    write_csv(tmp_path / "raw" / "a.csv", [("", "1")])
    assert "\n" not in refused(tmp_path).found


def test_of_many_files_some_are_named_and_the_others_counted() -> None:
    notes = [FileNote(Reason.FILE_ENCODING, f"{i}.csv", "x", "UTF-8") for i in range(MOST_FILES + 3)]
    with pytest.raises(GateError) as caught, naming_files(notes, read=True):
        raise GateError("over the budget", found="9 of 9")
    assert caught.value.found.endswith("and 3 more")
    assert str(caught.value).count(".csv") == MOST_FILES
