"""The same rows give the same shards, however they come; what the schema forbids is refused."""

from __future__ import annotations

import errno
import hashlib
import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import StorageError
from pipeline.shards import schemas as arrow
from pipeline.shards.files import Part
from pipeline.shards.writer import ShardWriter, empty_shard, relaxed

SCHEMA = pa.schema(
    [
        pa.field("text", pa.string(), nullable=False),
        pa.field("note", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("ids", pa.list_(pa.int32()), nullable=False),
        pa.field("bbox", pa.list_(pa.list_(pa.field("item", pa.int16(), nullable=False), 4)), nullable=False),
    ]
)
ROW = st.fixed_dictionaries(
    {
        "text": st.text(max_size=8),
        "note": st.none() | st.text(max_size=3),
        "flag": st.none() | st.booleans(),
        "ids": st.lists(st.integers(-100, 2**31 - 1), max_size=4),
        "bbox": st.lists(st.lists(st.integers(0, 1000), min_size=4, max_size=4), max_size=3),
    }
)


def write(
    folder: Path, tables: list[pa.Table], shard_rows: int = 100, batch_rows: int = 10
) -> tuple[Part, ...]:
    writer = ShardWriter(folder, SCHEMA, shard_rows, batch_rows, fsync=False)
    for table in tables:
        writer.write(table)
    return writer.close()


def batches(path: Path) -> list[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file:
        found = list(pa.ipc.open_stream(file))
    for batch in found:
        batch.validate(full=True)
    return found


def rows_of(count: int) -> pa.Table:
    rows = [
        {
            "text": f"t{i}",
            "note": None if i % 3 else "n",
            "flag": i % 2 == 0 if i % 5 else None,
            "ids": [i] * (i % 4),
        }
        | {"bbox": [[0, 0, i % 1000, 1000]]}
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@given(
    rows=st.lists(ROW, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    shard_rows=st.integers(1, 12),
    batch_rows=st.integers(1, 7),
)
def test_bytes_depend_on_the_rows_alone(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, object]],
    cuts: list[int],
    shard_rows: int,
    batch_rows: int,
) -> None:
    whole = pa.Table.from_pylist(rows, SCHEMA)
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    pieces = [whole.slice(a, b - a) for a, b in itertools.pairwise(borders)]
    rebuilt = [pa.Table.from_pylist(piece.to_pylist(), SCHEMA) for piece in pieces]
    folder = tmp_path_factory.mktemp("w")
    parts = write(folder / "a", [whole], shard_rows, batch_rows)
    assert parts == write(folder / "b", pieces, shard_rows, batch_rows)
    assert parts == write(folder / "c", rebuilt, shard_rows, batch_rows)

    sizes = [len(rows[i : i + shard_rows]) for i in range(0, len(rows), shard_rows)]
    assert [part.rows for part in parts] == sizes
    back: list[dict[str, object]] = []
    for part in parts:
        found = batches(folder / "a" / part.name)
        lengths = [batch.num_rows for batch in found]
        assert all(length == min(batch_rows, shard_rows) for length in lengths[:-1])
        back += [row for batch in found for row in batch.to_pylist()]
    assert back == rows


def test_a_shard_is_named_after_its_content(tmp_path: Path) -> None:
    for part in write(tmp_path, [rows_of(25)], shard_rows=10):
        content = (tmp_path / part.name).read_bytes()
        assert part.sha256 == hashlib.sha256(content).hexdigest()
        assert part.name == f"part-{part.sha256[:20]}.arrow"
        assert part.bytes == len(content)
    assert {path.suffix for path in tmp_path.iterdir()} == {".arrow"}


def test_no_rows_make_no_shard(tmp_path: Path) -> None:
    assert write(tmp_path / "none", [rows_of(0)]) == ()
    assert not (tmp_path / "none").exists()


def test_a_data_set_without_rows_gets_a_shard_that_opens(tmp_path: Path) -> None:
    part = empty_shard(tmp_path, SCHEMA, fsync=False)
    assert part.rows == 0
    assert [batch.num_rows for batch in batches(tmp_path / part.name)] == [0]


def test_the_stored_schema_is_the_same_whatever_the_rows_hold(tmp_path: Path) -> None:
    (full,) = write(tmp_path, [rows_of(3)])
    (bare,) = write(tmp_path, [pa.Table.from_pylist([{"text": "", "ids": [], "bbox": []}], SCHEMA)])
    none = empty_shard(tmp_path, SCHEMA, fsync=False)
    schemas = [batches(tmp_path / part.name)[0].schema for part in (full, bare, none)]
    assert all(schema.equals(relaxed(SCHEMA), check_metadata=True) for schema in schemas)


def test_rows_of_wider_types_are_cast_and_must_fit(tmp_path: Path) -> None:
    wide = rows_of(3).set_column(3, "ids", pa.array([[1], [2], [3]], pa.large_list(pa.int64())))
    (part,) = write(tmp_path, [wide])
    assert part.statistics["ids[]"].maximum == 3
    beyond = rows_of(1).set_column(3, "ids", pa.array([[2**40]], pa.list_(pa.int64())))
    with pytest.raises(pa.ArrowInvalid):
        write(tmp_path / "beyond", [beyond])


@pytest.mark.parametrize(
    ("column", "values"),
    [("text", pa.array([None], pa.string())), ("ids", pa.array([None], pa.list_(pa.int32())))],
)
def test_a_null_where_the_schema_allows_none_is_refused(
    tmp_path: Path, column: str, values: pa.Array
) -> None:
    index = SCHEMA.get_field_index(column)
    table = rows_of(1).cast(relaxed(SCHEMA)).set_column(index, column, values)
    with pytest.raises(ValueError, match=f"1 nulls in the column '{column}'"):
        write(tmp_path, [table])


def test_a_null_inside_a_box_is_refused(tmp_path: Path) -> None:
    boxes = pa.array([[[0, 0, None, 1]]], pa.list_(pa.list_(pa.int16(), 4)))
    table = rows_of(1).cast(relaxed(SCHEMA)).set_column(4, "bbox", boxes)
    with pytest.raises(ValueError, match=r"1 nulls in the column 'bbox\[\]\[\]'"):
        write(tmp_path, [table])


def test_a_missing_or_unknown_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="columns"):
        write(tmp_path, [rows_of(1).drop_columns(["note"])])
    with pytest.raises(ValueError, match="columns"):
        write(tmp_path, [rows_of(1).append_column("more", pa.array([1]))])


def test_bytes_end_a_batch_and_a_shard_early_and_the_same_way_however_rows_come(tmp_path: Path) -> None:
    rows = [{"text": "x" * (i * 37 % 900), "ids": [], "bbox": []} for i in range(60)]
    whole = pa.Table.from_pylist(rows, SCHEMA)
    parts = []
    for name, pieces in (("a", [whole]), ("b", [whole.slice(i, 7) for i in range(0, 60, 7)])):
        writer = ShardWriter(
            tmp_path / name, SCHEMA, 50, 20, shard_bytes=8_000, batch_bytes=4_000, fsync=False
        )
        for piece in pieces:
            writer.write(piece)
        parts.append(writer.close())
    assert parts[0] == parts[1]
    assert sum(part.rows for part in parts[0]) == 60
    assert len(parts[0]) > 2
    assert all(part.bytes <= 8_000 for part in parts[0])
    for part in parts[0]:
        assert all(batch.nbytes <= 4_000 for batch in batches(tmp_path / "a" / part.name))


def test_an_unfinished_writer_leaves_no_file(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, SCHEMA, 100, 10, fsync=False) as writer:
        writer.write(rows_of(30))
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pipeline.shards.writer.sync_file", full)
    with pytest.raises(StorageError, match="no space left") as caught:
        writer = ShardWriter(tmp_path, SCHEMA)
        writer.write(rows_of(3))
        writer.close()
    assert caught.value.exit == 74


@pytest.mark.parametrize(
    "schema",
    [
        arrow.layout([], float_boxes=False, labels=True, image=True, record=True),
        arrow.layout([], float_boxes=True, labels=False, image=False, record=False),
        arrow.pages(side=2),
        arrow.chat([], record=True, packed=True, preference=True),
        arrow.table([pa.field("price", pa.float64())], tokenized=True, label=True),
        arrow.tokens([], labels=True),
    ],
)
def test_every_shard_schema_is_stored_as_datasets_understands_it(schema: pa.Schema) -> None:
    """Where the two differ, ``datasets`` casts the whole table at every open."""
    from datasets import Features

    assert Features.from_arrow_schema(relaxed(schema)).arrow_schema.equals(relaxed(schema))


def test_a_row_larger_than_a_shard_may_be_has_a_shard_of_its_own(tmp_path: Path) -> None:
    rows = [{"text": "x" * size, "ids": [], "bbox": []} for size in (10, 9_000, 10, 10)]
    with ShardWriter(tmp_path, SCHEMA, 50, 20, shard_bytes=4_000, fsync=False) as writer:
        writer.write(pa.Table.from_pylist(rows, SCHEMA))
        parts = writer.close()
    assert [part.rows for part in parts] == [1, 1, 2]
    assert all(part.bytes <= 4_000 for part in (parts[0], parts[2]))
