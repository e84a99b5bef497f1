"""Parquet and Arrow: every row with its number, types that a frame can hold, broken files as one fault."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FileFault
from pipeline.readers import parquet
from pipeline.readers.discover import Claim
from pipeline.readers.formats import Partition
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.stages.cast import Cast
from tests.readers.sheets import fields, schema

UNION = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
FORMS = ("parquet", "file", "stream")


def save(folder: Path, table: pa.Table, form: str, rows: int = 3) -> Path:
    """Write a table in small row groups or record batches."""
    path = folder / ("t.parquet" if form == "parquet" else "t.arrow")
    if form == "parquet":
        pq.write_table(table, path, row_group_size=rows)
        return path
    writer = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with writer(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=rows)
    return path


def claim(path: Path) -> Claim:
    return Claim(0, path.name, path, "parquet" if path.suffix == ".parquet" else "arrow", path.stat().st_size)


def read(
    path: Path, columns: tuple[Field, ...], schema_: Schema | None = None
) -> tuple[list[Partition], list[dict[str, Any]]]:
    """Partitions, and all records with their ``row``."""
    schema_ = schema_ or schema()
    partitions = list(parquet.inspect(claim(path), schema_, columns).partitions)
    rows = []
    for partition in partitions:
        count = 0
        for batch, findings in parquet.read(partition, path, schema_, columns):
            assert batch.columns is not None
            assert not findings.items
            assert batch.ids.tolist() == list(range(count, count + len(batch)))
            count += len(batch)
            rows += [
                {"row": row, **record}
                for row, record in zip(batch.rows.tolist(), batch.columns.to_dicts(), strict=True)
            ]
    return partitions, rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=5) | st.none(), st.integers(0, 9)), max_size=20), st.integers(1, 7)
)
@pytest.mark.parametrize("form", FORMS)
def test_every_row_comes_back_with_its_number(
    tmp_path: Path, form: str, rows: list[tuple[str | None, int]], cut: int
) -> None:
    table = pa.table(
        {"id": pa.array([r[0] for r in rows], pa.string()), "n": pa.array([r[1] for r in rows], pa.int64())}
    )
    _, records = read(save(tmp_path, table, form, cut), fields("id", "n"))
    assert records == [{"row": i, "id": text, "n": n} for i, (text, n) in enumerate(rows, 1)]


def test_a_large_parquet_file_is_cut_between_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"id": [f"r{i}" for i in range(100)]})
    path = save(tmp_path, table, "parquet", 7)
    size = pq.ParquetFile(path).metadata.row_group(0).total_byte_size
    monkeypatch.setattr(parquet, "RANGE_BYTES", 3 * size)
    partitions, records = read(path, fields("id"))
    assert [(p.start, p.end) for p in partitions] == [(0, 21), (21, 42), (42, 63), (63, 84), (84, 100)]
    assert [p.order for p in partitions] == list(range(5))
    assert [(r["row"], r["id"]) for r in records] == [(i + 1, f"r{i}") for i in range(100)]


def test_batches_are_bounded_by_rows_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_BYTES", 10_000)
    path = save(tmp_path, pa.table({"id": ["x" * 1000] * 100}), "stream", 100)
    (partition,) = parquet.inspect(claim(path), schema(), fields("id")).partitions
    sizes = [len(batch) for batch, _ in parquet.read(partition, path, schema(), fields("id"))]
    assert sum(sizes) == 100
    assert max(sizes) <= 10


@given(
    st.lists(st.integers(-(10**15), 10**15) | st.none(), min_size=1, max_size=5), st.integers(0, 9), st.data()
)
def test_decimals_are_the_nearest_numbers_under_a_field_of_numbers(
    tmp_path_factory: pytest.TempPathFactory, digits: list[int | None], scale: int, data: st.DataObject
) -> None:
    values = [None if n is None else decimal.Decimal(n).scaleb(-scale) for n in digits]
    table = pa.table({"id": pa.array(values, pa.decimal128(38, scale))})
    path = save(tmp_path_factory.mktemp("t"), table, data.draw(st.sampled_from(FORMS)))
    for kind in (Kind.NUMBER, Kind.INTEGER):
        _, rows = read(path, (Field("id", "id", FieldType(kind)),))
        assert [row["id"] for row in rows] == [None if v is None else float(v) for v in values]
    _, rows = read(path, fields("id"))
    assert [None if row["id"] is None else decimal.Decimal(row["id"]) for row in rows] == values


def test_a_whole_decimal_keeps_all_digits_of_64_bits_and_one_beyond_is_found(tmp_path: Path) -> None:
    columns = (Field("id", "id", FieldType(Kind.INTEGER)),)
    for values, good in (([2**63 - 1, 7], [2**63 - 1, 7]), ([2**63, 7], [None, 7])):
        table = pa.table({"id": pa.array(map(decimal.Decimal, values), pa.decimal128(38, 0))})
        path = save(tmp_path, table, "parquet", 10)
        (partition,) = parquet.inspect(claim(path), schema(), columns).partitions
        ((batch, _),) = parquet.read(partition, path, schema(), columns)
        cast, findings = Cast(schema(), columns)(batch)
        assert cast.frame["id"].to_list() == good
        bad = [i for f in findings.items if f.policy is Policy.QUARANTINE for i in f.ids.tolist()]
        assert bad == [i for i, value in enumerate(good) if value is None]


@pytest.mark.parametrize("form", FORMS)
def test_types_without_a_form_of_their_own_keep_their_values(tmp_path: Path, form: str) -> None:
    table = pa.table(
        {
            "kind": pa.array(["a", None, "a"]).dictionary_encode(),
            "price": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("-2.00")]),
            "half": pa.array(np.array([1.5, 2, -1], np.float16)),
            "pairs": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
            "inner": pa.array([["x"], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
            "struct": [{"a": 1, "b": ["c"]}] * 3,
            "box": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int64(), 2)),
            "day": [datetime.date(2024, 1, 31)] * 3,
            "none": pa.nulls(3),
        }
    )
    _, rows = read(save(tmp_path, table, form), fields(*table.column_names))
    assert rows[0] == {
        "row": 1,
        "kind": "a",
        "price": "1.10",
        "half": 1.5,
        "pairs": [{"key": "k", "value": 1}],
        "inner": ["x"],
        "struct": {"a": 1, "b": ["c"]},
        "box": [1, 2],
        "day": datetime.date(2024, 1, 31),
        "none": None,
    }
    assert [row["pairs"] for row in rows] == [[{"key": "k", "value": 1}], None, []]
    assert [row["box"] for row in rows] == [[1, 2], [3, 4], None]


def test_only_columns_that_are_read_are_loaded(tmp_path: Path) -> None:
    table = pa.table({"other": pa.array([1, 2], pa.duration("s")), "id": ["a", "b"]})
    path = save(tmp_path, table, "file")
    assert read(path, fields("id"))[1] == [{"row": 1, "id": "a"}, {"row": 2, "id": "b"}]


def test_a_name_is_aligned_with_the_declared_one_and_the_frame_has_that(tmp_path: Path) -> None:
    path = save(tmp_path, pa.table({"page\nwidth": [1], "x": [2]}), "parquet")
    assert read(path, fields("page width"))[1] == [{"row": 1, "page width": 1}]


def test_what_the_cast_finds_in_a_typed_column_is_a_finding_of_its_record(tmp_path: Path) -> None:
    path = save(tmp_path, pa.table({"id": [1.0, 2.5, None]}), "parquet", 10)
    columns = (Field("id", "id", FieldType(Kind.INTEGER)),)
    (partition,) = parquet.inspect(claim(path), schema(), columns).partitions
    ((batch, _),) = parquet.read(partition, path, schema(), columns)
    cast, findings = Cast(schema(), columns)(batch)
    assert cast.frame["id"].to_list() == [1, None, None]
    bad = {f.reason: f.ids.tolist() for f in findings.items if f.policy is Policy.QUARANTINE}
    assert bad == {Reason.VALUE_TYPE: [1], Reason.VALUE_MISSING: [2]}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damage", ["cut", "empty", "other"])
def test_a_broken_file_is_one_fault(tmp_path: Path, form: str, damage: str) -> None:
    path = save(tmp_path, pa.table({"id": ["some text"] * 1000}), form, 100)
    data = path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "other": b"id,text\na,b\n"}[damage])
    with pytest.raises(FileFault) as caught:
        read(path, fields("id"))
    assert caught.value.note.reason is Reason.FILE_UNREADABLE


def test_offsets_that_lead_astray_are_one_fault(tmp_path: Path) -> None:
    offsets = np.array([0, 3, 2_000_000_000, 4], np.int32)
    wrong = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"abcd")])
    path = save(tmp_path, pa.table({"id": wrong}), "stream", 10)
    with pytest.raises(FileFault):
        read(path, fields("id"))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"text": ["a"]}, Reason.HEADER_MISSING),
        ({"id": UNION}, Reason.FILE_UNREADABLE),
    ],
)
def test_a_column_that_is_missing_or_has_no_form_is_one_fault(
    tmp_path: Path, table: dict[str, Any], reason: Reason
) -> None:
    with pytest.raises(FileFault) as caught:
        read(save(tmp_path, pa.table(table), "stream"), fields("id"))
    assert caught.value.note.reason is reason


def test_a_name_that_stands_twice_is_one_fault(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["id", "id"])
    with pytest.raises(FileFault) as caught:
        read(save(tmp_path, twice, "stream"), fields("id"))
    assert caught.value.note.reason is Reason.HEADER_DUPLICATE


def test_a_file_without_rows_is_said(tmp_path: Path) -> None:
    path = save(tmp_path, pa.table({"id": pa.array([], pa.string())}), "parquet")
    assert [note.reason for note in parquet.inspect(claim(path), schema(), fields("id")).notes] == [
        Reason.FILE_EMPTY
    ]


def test_a_data_set_saved_by_datasets_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    saved = datasets.Dataset.from_dict({"id": ["a", "b"], "words": [["x", "y"], []]})
    saved.save_to_disk(tmp_path / "set")
    (path,) = (tmp_path / "set").glob("*.arrow")
    _, rows = read(path, fields("id", "words"))
    assert rows == [{"row": 1, "id": "a", "words": ["x", "y"]}, {"row": 2, "id": "b", "words": []}]
