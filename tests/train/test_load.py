"""Opening certified data: verified, whole, the same rows by every way, and refused otherwise."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.errors import Exit, RefusedError
from pipeline.train import load_certified
from pipeline.train.load import open_certified
from tests.train import made


def test_rows_and_hf_data_set_are_the_same(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    rows, hf = (
        load_certified(clean, "forms", backend="rows"),
        load_certified(clean, "forms", backend="datasets"),
    )
    assert len(rows) == len(hf) == 40
    assert rows.column_names == hf.column_names
    assert [rows[i] for i in range(40)] == [hf[i] for i in range(40)]
    assert rows[-1] == hf[39]


def test_facts_are_attached(tmp_path: Path) -> None:
    clean = made.chat_folder(tmp_path / "clean")
    facts = load_certified(clean).certified
    assert facts.rows == 40
    assert facts.kind == "chat"
    assert facts.number("input_ids[]", "maximum") == 119
    assert sum(facts.lengths.values()) == 40


def test_rows_are_mapped_not_copied(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    before = pa.total_allocated_bytes()
    rows = load_certified(clean, backend="rows")
    assert pa.total_allocated_bytes() - before < rows.table.nbytes / 10


def test_rows_travel_to_a_worker_as_a_place(tmp_path: Path) -> None:
    rows = load_certified(made.layout_folder(tmp_path / "clean"), backend="rows")
    packed = pickle.dumps(rows)
    assert len(packed) < 40_000
    assert pickle.loads(packed)[7] == rows[7]  # noqa: S301 - made two lines above


def test_a_split_is_found_by_its_own_name(tmp_path: Path) -> None:
    schema = made.arrow.chat([], record=False)
    both = {
        f"clinical.{split}": (schema, made.chat_rows(9, seed)) for seed, split in enumerate(("train", "eval"))
    }
    clean = made.folder(tmp_path / "clean", "clinical", "chat", both, 16)
    assert open_certified(clean, "eval").name == "clinical.eval"
    with pytest.raises(
        RefusedError, match=r"clinical\.train, clinical\.eval|clinical\.eval, clinical\.train"
    ):
        open_certified(clean)
    with pytest.raises(RefusedError, match="test"):
        open_certified(clean, "test")


def test_pages_are_no_training_data(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    assert open_certified(clean).name == "forms"


def test_an_uncertified_folder_is_refused(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    (clean / "certificate.json").unlink()
    with pytest.raises(RefusedError, match="certificate_missing") as caught:
        load_certified(clean)
    assert caught.value.exit is Exit.REFUSED


def test_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    load_certified(clean)
    shard = sorted((clean / "forms/data").glob("*.arrow"))[0]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(RefusedError, match="shard_altered"):
        load_certified(clean)


def test_a_model_that_does_not_fit_is_refused_at_the_opening(tmp_path: Path) -> None:
    clean = made.layout_folder(tmp_path / "clean")
    small = made.write_config(tmp_path / "model", made.LAYOUT_CONFIG | {"vocab_size": 100})
    with pytest.raises(RefusedError, match="embedding_rows"):
        load_certified(clean, expect=small)
    load_certified(clean, expect=made.write_config(tmp_path / "right", made.LAYOUT_CONFIG))
