"""Columns of a table beside the columns that every sample has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import SchemaError
from tests.test_run import rows_of, sanitize

SCHEMA = """\
version: 1
name: reviews
kind: table
files: ["*.jsonl"]
columns:
  text: {}
  labels: {type: %s}
table: {label: %s}
quarantine: {max_rate: 1.0}
"""


@pytest.mark.parametrize(
    ("kind", "lines", "ids"),
    [
        ("text, allowed: [neg, pos]", ['"pos"', '"neg"', '"other"'], [1, 0]),
        ("integer", ["4", "0", "-1"], [4, 0]),
    ],
)
def test_a_label_column_called_labels_stands_there_as_ids(
    tmp_path: Path, kind: str, lines: list[str], ids: list[int]
) -> None:
    (tmp_path / "raw").mkdir()
    records = "".join(f'{{"text":"t","labels":{label}}}\n' for label in lines)
    (tmp_path / "raw" / "a.jsonl").write_text(records)
    sanitize(tmp_path, SCHEMA % (kind, "labels"))
    assert [row["labels"] for row in rows_of(tmp_path / "clean", "reviews")] == ids


def test_a_column_called_as_one_of_the_samples_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.jsonl").write_text("{}\n")
    schema = (SCHEMA % ("integer", "kind")).replace("  text: {}", "  text: {}\n  kind: {type: integer}")
    with pytest.raises(SchemaError, match="labels"):
        sanitize(tmp_path, schema)
