"""The samples come out of their scripts as they are committed, and no other way."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import openpyxl
import pytest
from PIL import Image

from pipeline.reasons import Reason


def _make(script: Path, target: Path) -> None:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(
        [sys.executable, str(script), str(target)], check=True, stdout=subprocess.DEVNULL, env=environment
    )


@pytest.fixture(scope="module")
def made(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("samples")
    _make(samples / "make_samples.py", target)
    _make(samples / "make_tokenizers.py", target / "tokenizers")
    return target


def _files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _cells(path: Path) -> list[tuple[object, ...]]:
    book = openpyxl.load_workbook(path)
    return [
        (sheet.title, sheet.sheet_state, *row) for sheet in book for row in sheet.iter_rows(values_only=True)
    ]


def test_the_scripts_make_the_committed_files_and_no_others(samples: Path, made: Path) -> None:
    assert _files(made / "raw") == _files(samples / "raw")
    for name in _files(made / "raw"):
        one, other = made / "raw" / name, samples / "raw" / name
        if one.suffix == ".xlsx" and not one.name.startswith("~$"):
            assert _cells(one) == _cells(other), name
        elif one.suffix == ".png":
            with Image.open(one) as drawn, Image.open(other) as kept:
                assert (drawn.mode, drawn.size) == (kept.mode, kept.size), name
        elif one.suffix != ".jpg":
            assert one.read_bytes() == other.read_bytes(), name


def test_the_scripts_make_the_same_bytes_each_time(samples: Path, made: Path, tmp_path: Path) -> None:
    _make(samples / "make_samples.py", tmp_path)
    assert _files(made / "raw") == _files(tmp_path / "raw")
    assert all(
        (made / "raw" / n).read_bytes() == (tmp_path / "raw" / n).read_bytes() for n in _files(made / "raw")
    )


def test_the_tokenizers_are_trained_to_the_committed_bytes(samples: Path, made: Path) -> None:
    assert _files(made / "tokenizers") == _files(samples / "tokenizers")
    for name in _files(made / "tokenizers"):
        assert (made / "tokenizers" / name).read_bytes() == (samples / "tokenizers" / name).read_bytes(), name


def test_all_formats_are_there_and_the_whole_is_small(samples: Path) -> None:
    names = _files(samples / "raw")
    assert {Path(name).suffix for name in names} >= {".xlsx", ".csv", ".json", ".jsonl", ".png"}
    assert sum((samples / "raw" / name).stat().st_size for name in names) < 600_000


def test_planted_faults_are_of_every_main_sort_and_have_known_reasons(samples: Path) -> None:
    with (samples / "faults.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    planted = {row["reason"] for row in rows}
    assert planted <= {reason.slug for reason in Reason}
    assert planted >= {
        "bbox_out_of_page",
        "bbox_inverted",
        "bbox_not_finite",
        "label_unknown",
        "content_empty",
        "content_as_shown",
        "role_order",
        "control_token_in_content",
        "too_long_for_target",
        "json_invalid",
        "image_truncated",
    }
