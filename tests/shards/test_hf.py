"""The output folder opens with plain ``datasets``."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from tests import runs


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def test_load_from_disk_gives_every_row_in_order(tmp_path: Path) -> None:
    runs.run(tmp_path / "clean", {"b.csv": (11, 1), "a.csv": (20, 0)})
    loaded = datasets.load_from_disk(str(tmp_path / "clean"))
    assert isinstance(loaded, datasets.DatasetDict)
    assert set(loaded) == {"demo.train", "demo.eval"}
    expected = runs.table("a.csv", 20).to_pylist() + runs.table("b.csv", 11, 1).to_pylist()
    assert loaded["demo.train"].to_list() == expected
    assert loaded["demo.train"].split == "demo.train"
    assert loaded["demo.eval"].num_rows == 0
    assert loaded["demo.eval"].features == loaded["demo.train"].features


def test_shards_are_mapped_as_they_lie_on_disk(tmp_path: Path) -> None:
    outcome = runs.run(tmp_path / "clean", {"a.csv": (20, 0)})
    loaded = datasets.load_from_disk(str(tmp_path / "clean"))
    opened = {
        Path(file["filename"]).relative_to(tmp_path / "clean") for file in loaded["demo.train"].cache_files
    }
    named = {Path(name) for name in outcome.statement.files if name.startswith("demo.train")}
    assert opened == named
    assert loaded["demo.train"].data.schema.equals(loaded["demo.train"].features.arrow_schema)


def test_the_folder_of_shards_opens_as_plain_arrow_files(tmp_path: Path) -> None:
    runs.run(tmp_path / "clean", {"a.csv": (20, 0), "b.csv": (5, 0)})
    runs.run(
        tmp_path / "clean", {"a.csv": (20, 1), "b.csv": (5, 0)}
    )  # shards of the first run must not be read
    place = tmp_path / "clean" / "demo.train" / "data"
    assert {path.suffix for path in place.iterdir()} == {".arrow"}
    loaded = datasets.load_dataset(
        "arrow", data_dir=str(place), split="train", cache_dir=str(tmp_path / "cache")
    )
    expected = runs.table("a.csv", 20, 1).to_pylist() + runs.table("b.csv", 5).to_pylist()
    assert sorted(loaded.to_list(), key=lambda row: row["sample_id"]) == sorted(
        expected, key=lambda row: row["sample_id"]
    )


def test_the_fingerprint_follows_the_content(tmp_path: Path) -> None:
    """A constant one would make ``.map`` serve the rows of an older run."""
    prints = []
    for seed in (0, 1, 0):
        runs.run(tmp_path / "clean", {"a.csv": (20, seed)})
        prints.append(datasets.load_from_disk(str(tmp_path / "clean"))["demo.train"]._fingerprint)
    assert prints[0] == prints[2] != prints[1]
