"""Tensors hold exactly the certified values, and pads that the family takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from pipeline.errors import RefusedError
from pipeline.train import Collator, load_certified
from pipeline.train.collate import RowCollator
from tests.train import made


def test_rows_become_tensors_padded_for_their_family(tmp_path: Path) -> None:
    rows = load_certified(made.layout_folder(tmp_path / "clean"), backend="rows")
    collator = RowCollator(rows, causal=False)
    chosen = np.array([17, 3, 39])
    batch = collator.batch(chosen, 64).tensors
    for place, index in enumerate(chosen.tolist()):
        row, n = rows[index], len(rows[index]["input_ids"])
        for name, pad in (("input_ids", 1), ("attention_mask", 0), ("labels", -100), ("bbox", [0, 0, 0, 0])):
            values = batch[name][place].tolist()
            assert values[:n] == row[name], name
            assert values[n:] == [pad] * (64 - n), name
    assert batch["input_ids"].dtype == batch["labels"].dtype == batch["bbox"].dtype == torch.int64
    pages = load_certified(tmp_path / "clean", "forms.pages", backend="rows")
    by_id = {page["page_id"]: page["pixels"] for page in pages}
    for place, index in enumerate(chosen.tolist()):
        assert batch["pixel_values"][place].flatten().tolist() == by_id[rows[index]["page_id"]]


def test_pixels_are_normalized_as_the_image_processor_does(tmp_path: Path) -> None:
    rows = load_certified(made.layout_folder(tmp_path / "clean"), backend="rows")
    collator = RowCollator(rows, causal=False)
    pixels = collator.batch(np.array([0, 1]), 64).tensors["pixel_values"]
    assert collator.normalization is not None
    processor = transformers.LayoutLMv3ImageProcessor(apply_ocr=False, do_resize=False)
    expected = processor(list(pixels), return_tensors="pt", input_data_format="channels_first")[
        "pixel_values"
    ]
    torch.testing.assert_close(collator.normalization(pixels), expected, atol=1e-6, rtol=0)


def test_a_filler_teaches_nothing_and_attends_to_something(tmp_path: Path) -> None:
    rows = load_certified(made.layout_folder(tmp_path / "clean"), backend="rows")
    batch = RowCollator(rows, causal=False).batch(np.array([5, -1]), 64).tensors
    assert (batch["labels"][1] == -100).all()
    assert batch["attention_mask"][1].any()
    assert torch.equal(batch["input_ids"][0], batch["input_ids"][1])
    assert (batch["labels"][0] != -100).any()


def test_a_batch_of_fillers_alone_is_filled_by_the_stand_in(tmp_path: Path) -> None:
    rows = load_certified(made.layout_folder(tmp_path / "clean"), backend="rows")
    batch = RowCollator(rows, causal=False).batch(np.array([-1, -1]), 64, stand_in=9).tensors
    assert batch["input_ids"][1].tolist()[: len(rows[9]["input_ids"])] == rows[9]["input_ids"]
    assert (batch["labels"] == -100).all()


def test_supervised_labels_are_counted_as_the_loss_sees_them(tmp_path: Path) -> None:
    layout = load_certified(made.layout_folder(tmp_path / "a"), backend="rows")
    chat = load_certified(made.chat_folder(tmp_path / "b", packed=True), backend="rows")
    for rows, causal in ((layout, False), (chat, True)):
        collator, every = RowCollator(rows, causal=causal), np.array([0, 7, 21, -1])
        labels = collator.batch(every, 64).tensors["labels"]
        counted = labels[:, 1:] if causal else labels
        assert collator.supervised(every) == int((counted != -100).sum())


def test_packed_conversations_do_not_learn_from_one_another(tmp_path: Path) -> None:
    rows = load_certified(made.chat_folder(tmp_path / "clean", packed=True), backend="rows")
    batch = RowCollator(rows, causal=True).batch(np.array([0, 1]), 64).tensors
    assert "attention_mask" not in batch
    assert (batch["labels"][batch["position_ids"] == 0] == -100).all()
    assert (batch["position_ids"].diff(dim=1) < 0).any()


@pytest.mark.parametrize("backend", ["datasets", "rows"])
def test_the_trainer_collator_gives_the_same_tensors(tmp_path: Path, backend: str) -> None:
    data = load_certified(made.layout_folder(tmp_path / "clean"), backend=backend)
    rows = load_certified(tmp_path / "clean", backend="rows")
    fast = RowCollator(rows, causal=False)
    slow = Collator(data)([data[i] for i in (4, 8)])
    batch = fast.batch(np.array([4, 8]), slow["input_ids"].shape[1]).tensors
    assert fast.normalization is not None
    batch["pixel_values"] = fast.normalization(batch["pixel_values"])
    assert set(slow) == set(batch)
    for name in slow:
        assert torch.equal(slow[name], batch[name]), name


def test_removed_columns_are_named(tmp_path: Path) -> None:
    data = load_certified(made.layout_folder(tmp_path / "clean"), backend="rows")
    row = {name: value for name, value in data[0].items() if name != "page_id"}
    with pytest.raises(RefusedError, match="page_id missing"):
        Collator(data)([row])


def test_a_page_that_is_missing_is_white(tmp_path: Path) -> None:
    rows = made.layout_rows(6)
    rows["page_id"] = made.pa.array([None, *rows["page_id"].to_pylist()[1:]])
    data = load_certified(made.layout_folder(tmp_path / "clean", 6, rows=rows), backend="rows")
    pixels = RowCollator(data, causal=False).batch(np.array([0, 1]), 64).tensors["pixel_values"]
    assert (pixels[0] == 255).all()
    assert not (pixels[1] == 255).all()
