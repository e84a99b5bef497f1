"""The judge of final tensors finds each hazard, and passes what a model takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.train.audit import audit
from pipeline.train.judge import judge
from pipeline.train.model_limits import target_of
from tests.train import made

LAYOUT, LLAMA = target_of(made.LAYOUT_CONFIG), target_of(made.LLAMA_CONFIG)


def layout(**columns: Any) -> pa.Table:
    """Three sound rows of four tokens, with columns changed."""
    sound: dict[str, Any] = {
        "input_ids": [[0, 5, 6, 2]] * 3,
        "attention_mask": [[1, 1, 1, 1]] * 3,
        "bbox": [[[0, 0, 0, 0], [1, 2, 3, 4], [5, 6, 70, 80], [0, 0, 0, 0]]] * 3,
        "labels": [[-100, 1, 6, -100]] * 3,
    }
    given = {**sound, **columns}
    return pa.table({name: values for name, values in given.items() if values is not None})


def found(table: pa.Table, target: Any = None, *, causal: bool = False) -> list[tuple[int, str, str]]:
    chosen = target or target_of(
        made.LAYOUT_CONFIG | {"num_labels": 7, "id2label": {i: str(i) for i in range(7)}}
    )
    return [(hit.row, hit.reason.slug, hit.place) for hit in judge(table, chosen, causal=causal)]


def second(row: list[Any], sound: list[Any]) -> list[Any]:
    return [sound, row, sound]


IDS, TAGS = [0, 5, 6, 2], [-100, 1, 6, -100]
BOX = [[0, 0, 0, 0], [1, 2, 3, 4], [5, 6, 70, 80], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("columns", "reason", "place"),
    [
        ({"input_ids": second([0, 120, 6, 2], IDS)}, "token_out_of_vocab", "[1]"),
        ({"input_ids": second([0, 5, -1, 2], IDS)}, "token_out_of_vocab", "[2]"),
        ({"input_ids": second([0, 5.5, 6, 2], IDS)}, "token_out_of_vocab", "[1]"),
        ({"labels": second([-100, 7, 6, -100], TAGS)}, "label_out_of_range", "[1]"),
        ({"labels": second([-100, 1, -1, -100], TAGS)}, "label_out_of_range", "[2]"),
        ({"labels": second([-100] * 4, TAGS)}, "label_all_ignored", ""),
        ({"labels": second([-100, 1, 6], TAGS)}, "lengths_mismatch", ""),
        ({"attention_mask": second([0] * 4, [1] * 4)}, "attention_empty", ""),
        ({"attention_mask": second([1] * 3, [1] * 4)}, "lengths_mismatch", ""),
        ({"token_type_ids": second([0, 1, 0, 0], [0] * 4)}, "token_type_out_of_range", "[1]"),
        ({"bbox": second([BOX[0], [1, 2, 1001, 4], *BOX[2:]], BOX)}, "bbox_out_of_page", "[1]"),
        ({"bbox": second([BOX[0], [1, 2, -3, 4], *BOX[2:]], BOX)}, "bbox_out_of_page", "[1]"),
        ({"bbox": second([BOX[0], [30, 2, 3, 4], *BOX[2:]], BOX)}, "bbox_inverted", "[1]"),
        ({"bbox": second([BOX[0], [1.0, float("nan"), 3, 4], *BOX[2:]], BOX)}, "bbox_not_finite", "[1]"),
        ({"bbox": second([BOX[0], [1, 2, 3], *BOX[2:]], BOX)}, "bbox_arity", "[1]"),
        ({"bbox": second(BOX[:3], BOX)}, "lengths_mismatch", ""),
        ({"pixel_values": second([0.1, float("nan")], [0.1, 0.2])}, "pixels_not_finite", ""),
    ],
)
def test_each_hazard_is_found_in_its_row_alone(columns: dict[str, Any], reason: str, place: str) -> None:
    hits = found(layout(**columns))
    assert (1, reason, place) in hits
    assert {row for row, _, _ in hits} == {1}


def test_sound_rows_pass() -> None:
    assert found(layout()) == []
    assert found(layout(bbox=[[[float(v) for v in box] for box in BOX]] * 3)) == []


def test_padding_is_counted_as_the_family_counts() -> None:
    """LayoutLMv3 numbers tokens that are no pads; Llama's positions are computed and bounded all the same."""
    padded = [IDS + [1] * 80] * 3
    mask, tags, boxes = [[1] * 4 + [0] * 80] * 3, [TAGS + [-100] * 80] * 3, [BOX + [[0] * 4] * 80] * 3
    assert found(layout(input_ids=padded, attention_mask=mask, labels=tags, bbox=boxes)) == []
    real = [IDS + [7] * 80] * 3
    hits = found(layout(input_ids=real, attention_mask=None, labels=tags, bbox=boxes))
    assert {reason for _, reason, _ in hits} == {"too_long_for_target"}


def test_causal_labels_are_shifted() -> None:
    table = pa.table({"input_ids": [[5, 6, 7]] * 2, "labels": [[5, -100, -100], [-100, -100, 7]]})
    assert found(table, LLAMA, causal=True) == [(0, "no_supervised_tokens", "")]
    assert [h[1] for h in found(pa.table({"input_ids": [[5]], "labels": [[5]]}), LLAMA, causal=True)] == [
        "sequence_too_short",
        "no_supervised_tokens",
    ]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(-3, 125), min_size=2, max_size=9), min_size=1, max_size=8))
def test_ids_agree_with_a_plain_loop(rows: list[list[int]]) -> None:
    hits = {
        row
        for row, reason, _ in found(pa.table({"input_ids": rows}), LLAMA)
        if reason == "token_out_of_vocab"
    }
    assert hits == {at for at, row in enumerate(rows) if any(not 0 <= value < 120 for value in row)}


@pytest.mark.parametrize("form", ["save_to_disk", "splits", "parquet", "arrow folder"])
def test_an_audit_reads_any_form_and_numbers_rows_by_file(tmp_path: Path, form: str) -> None:
    bad = np.arange(4_500)
    ids = [[5, 6, 7] if k != 4_321 else [5, 500, 7] for k in bad]
    data = datasets.Dataset.from_dict(
        {"input_ids": ids, "labels": [[-100, 6, 7]] * len(ids), "text": ["x"] * len(ids)}
    )
    place = tmp_path / "data"
    if form == "save_to_disk":
        data.save_to_disk(place)
    elif form == "splits":
        datasets.DatasetDict({"train": data, "test": data.select(range(10))}).save_to_disk(place)
    elif form == "parquet":
        place = tmp_path / "data.parquet"
        pq.write_table(data.data.table, place)
    else:
        place.mkdir()
        with pa.ipc.new_file(place / "cache.arrow", data.data.table.schema) as writer:
            writer.write_table(data.data.table)
    result = audit(place, LLAMA)
    assert dict(result.counts) == {"token_out_of_vocab": 1}
    ((_, hit),) = result.hits
    assert (hit.row, hit.place, hit.found) == (4_321, "[1]", "500")
    assert result.rows == 4_500 + (10 if form == "splits" else 0)


def test_an_audit_of_certified_shards_finds_nothing(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    result = audit(
        clean / "forms",
        target_of(made.LAYOUT_CONFIG | {"id2label": dict(enumerate(made.LABELS))}),
    )
    assert (result.rows, dict(result.counts)) == (40, {})


def test_nothing_tokenized_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing tokenized"):
        audit(tmp_path, LLAMA)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match="cannot be read"):
        audit(tmp_path, LLAMA)
