"""Nothing but certified rows passes, however the others came in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch

from pipeline.errors import RefusedError
from pipeline.train import assert_certified, load_certified
from tests.train import made


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return made.layout_folder(tmp_path / "clean")


HARMLESS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda ds: ds,
    "shuffle": lambda ds: ds.shuffle(seed=1),
    "select": lambda ds: ds.select([3, 1, 1]),
    "slice": lambda ds: ds.select(range(5, 25)),
    "shard": lambda ds: ds.shard(3, 1),
    "column left out": lambda ds: ds.remove_columns("notes"),
    "columns chosen": lambda ds: ds.select_columns(["input_ids", "labels"]),
    "format": lambda ds: ds.with_format("torch", columns=["input_ids"]),
    "split in two": lambda ds: ds.train_test_split(0.2, seed=1)["train"],
    "both splits": lambda ds: dict(ds.train_test_split(0.2, seed=1)),
    "twice": lambda ds: datasets.concatenate_datasets([ds, ds.select(range(3))]),
    "subset": lambda ds: torch.utils.data.Subset(ds, [1, 2]),
    "several": lambda ds: torch.utils.data.ConcatDataset([ds, ds]),
}


@pytest.mark.parametrize("change", HARMLESS)
def test_a_choice_of_certified_rows_passes(clean: Path, change: str) -> None:
    facts = assert_certified(HARMLESS[change](load_certified(clean, backend="datasets")))
    assert facts.name == "forms"


def _foreign(ds: Any) -> Any:
    return datasets.Dataset.from_dict(ds[:2], features=ds.features)


def _side_by_side(ds: Any) -> Any:
    one = ds.select_columns(["input_ids"])
    return datasets.concatenate_datasets([one, ds.remove_columns("input_ids")], axis=1)


CHANGED: dict[str, Callable[[Any], Any]] = {
    "rows added in memory": lambda ds: datasets.concatenate_datasets([ds, _foreign(ds)]),
    "row added": lambda ds: ds.add_item(ds[0]),
    "memory alone": _foreign,
    "map": lambda ds: ds.map(lambda row: {"labels": row["labels"]}, keep_in_memory=True),
    "map to a file": lambda ds: ds.map(lambda row: {"labels": row["labels"]}),
    "column added": lambda ds: ds.add_column("more", [1] * len(ds)),
    "column renamed": lambda ds: ds.rename_columns({"labels": "word_ids", "word_ids": "labels"}),
    "cast": lambda ds: ds.cast_column("labels", datasets.Sequence(datasets.Value("int8"))),
    "transform": lambda ds: ds.with_transform(lambda rows: rows),
    "side by side": _side_by_side,
    "streamed": lambda ds: ds.to_iterable_dataset(),
    "list": lambda ds: [ds[0]],
    "nothing": lambda ds: {},
}


@pytest.mark.parametrize("change", CHANGED)
def test_changed_or_foreign_rows_are_refused(clean: Path, tmp_path: Path, change: str) -> None:
    dataset = CHANGED[change](load_certified(clean, backend="datasets"))
    with pytest.raises(RefusedError, match=r"certified|nothing to train on"):
        assert_certified(dataset)


def test_plain_load_from_disk_passes(clean: Path) -> None:
    assert assert_certified(datasets.load_from_disk(str(clean))["forms"]).rows == 40


def test_pages_and_quarantine_are_no_training_data(clean: Path) -> None:
    with pytest.raises(RefusedError, match="training data"):
        assert_certified(datasets.load_from_disk(str(clean))["forms.pages"])


def test_rows_without_the_library_pass_and_a_swapped_table_does_not(clean: Path) -> None:
    rows = load_certified(clean, backend="rows")
    assert assert_certified(rows).rows == 40
    rows.table = rows.table.take(list(range(40)))
    with pytest.raises(RefusedError, match="in memory"):
        assert_certified(rows)


def test_a_copy_elsewhere_is_refused(clean: Path, tmp_path: Path) -> None:
    load_certified(clean, backend="datasets").save_to_disk(tmp_path / "copy")
    with pytest.raises(RefusedError, match="no certified folder"):
        assert_certified(datasets.load_from_disk(str(tmp_path / "copy")))


def test_two_certificates_in_one_job_are_refused(clean: Path, tmp_path: Path) -> None:
    other = made.layout_folder(tmp_path / "other", 10)
    both = [load_certified(clean, backend="datasets"), load_certified(other, backend="datasets")]
    with pytest.raises(RefusedError, match="two certificates"):
        assert_certified(datasets.concatenate_datasets(both))


def test_a_shard_changed_after_opening_is_refused(clean: Path) -> None:
    dataset = load_certified(clean, backend="datasets")
    shard = clean / load_certified(clean).certified.paths()[0]
    content = bytearray(shard.read_bytes())
    content[-200] ^= 1
    shard.write_bytes(content)
    with pytest.raises(RefusedError, match="shard_altered"):
        assert_certified(dataset)
