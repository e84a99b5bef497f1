"""The shard writer: rows in, shards out, each shard named after its content.

The same rows give the same bytes, however the caller groups them into calls of ``write``. The ends of the batches are
part of the bytes, so the writer regroups the rows into batches of a fixed number of rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.ipc

from pipeline.shards.files import Part, file_sha256, part_name, storage_errors, sync_file
from pipeline.shards.statistics import ColumnStatistics, measure, merge

SHARD_BYTES = 1 << 30
"""Largest size of a shard, in bytes: Arrow's 32-bit offsets and memory maps need less than 2 GiB. A shard that would
grow larger ends before its row count. A single larger row has a shard of its own."""
BATCH_BYTES = 256 << 20
"""Largest size of a record batch, in bytes; a larger one ends before its row count."""


class ShardWriter:
    """Writes rows of one schema to content-addressed shards in a folder.

    Args:
        folder: folder of the shards; created with the first row.
        schema: of every shard. A table of other types is cast; a null in a column that allows none is an error.
        shard_rows, batch_rows: number of rows of one shard and of one record batch.
        shard_bytes, batch_bytes: largest size of either, in bytes.
        fsync: whether the bytes of a shard are forced to the disk before it gets its name.

    Raises:
        StorageError: the disk is full or the folder read-only.
        ValueError: the schema does not allow the rows (a fault of this program).
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        shard_rows: int = 100_000,
        batch_rows: int = 1_000,
        *,
        shard_bytes: int = SHARD_BYTES,
        batch_bytes: int = BATCH_BYTES,
        fsync: bool = True,
    ) -> None:
        self._folder, self._schema, self._stored = folder, schema, relaxed(schema)
        self._shard_rows, self._batch_rows = shard_rows, min(batch_rows, shard_rows)
        self._shard_bytes, self._batch_bytes = shard_bytes, batch_bytes
        self._empty_bytes = len(self._stored.serialize()) + _END
        self._fsync = fsync
        self._not_null = frozenset(_not_null_paths(schema))
        self._pending = self._stored.empty_table()
        self._shard: _OpenShard | None = None
        self._parts: list[Part] = []

    def write(self, table: pa.Table) -> None:
        """Add rows. A batch is written as soon as it is full."""
        table = _conform(table, self._schema, self._stored)
        start = 0
        while start < table.num_rows:
            room = self._batch_rows - self._pending.num_rows
            taken = table.slice(start, room)
            start += taken.num_rows
            self._pending = pa.concat_tables([self._pending, taken])
            while self._pending.num_rows and self._is_full():
                self._flush()

    def close(self) -> tuple[Part, ...]:
        """Write the remaining rows and return the shards in order; no shard without rows."""
        while self._pending.num_rows:
            self._flush()
        self._end_shard()
        return tuple(self._parts)

    def abort(self) -> None:
        """Remove the unfinished shard."""
        if self._shard is not None:
            self._shard.abort()
            self._shard = None

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def _is_full(self) -> bool:
        rows, size = int(self._pending.num_rows), int(self._pending.nbytes)
        return rows >= self._batch_rows or size > 2 * self._batch_bytes

    def _flush(self) -> None:
        """Write one batch of the first pending rows."""
        pending = self._pending.combine_chunks()
        room = self._shard_rows - (self._shard.rows if self._shard else 0)
        rows = _fitting_rows(pending, min(self._batch_rows, room, pending.num_rows), self._batch_bytes)
        batch = _copy(pending.slice(0, rows))
        while rows > 1 and self._empty_bytes + _written_bytes(batch) > self._shard_bytes:
            rows = (rows + 1) // 2
            batch = _copy(pending.slice(0, rows))
        self._pending = pending.slice(rows)
        if self._shard is not None and self._shard.bytes + _written_bytes(batch) + _END > self._shard_bytes:
            self._end_shard()
        if self._shard is None:
            with storage_errors(self._folder):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._shard = _OpenShard(self._folder, self._stored, len(self._parts))
        shard = self._shard
        statistics = measure(batch)
        for path in sorted(self._not_null):
            if nulls := statistics[path].nulls:
                raise ValueError(f"{nulls} nulls in the column {path!r}, which allows none")
        with storage_errors(self._folder):
            shard.write(batch, statistics)
        if shard.rows >= self._shard_rows:
            self._end_shard()

    def _end_shard(self) -> None:
        if self._shard is not None:
            with storage_errors(self._folder):
                self._parts.append(self._shard.close(fsync=self._fsync))
            self._shard = None


class _OpenShard:
    """A shard that is being written, under a temporary name."""

    def __init__(self, folder: Path, schema: pa.Schema, number: int) -> None:
        self.rows = 0
        self._statistics: dict[str, ColumnStatistics] = measure(_empty(schema))
        self._path = folder / f".{os.getpid()}-{id(self):x}-{number}.tmp"
        self._file = pa.OSFile(str(self._path), "wb")
        self._stream = pa.ipc.new_stream(self._file, schema, options=_OPTIONS)

    @property
    def bytes(self) -> int:
        """Bytes written so far."""
        return int(self._file.tell())

    def write(self, batch: pa.RecordBatch, statistics: dict[str, ColumnStatistics]) -> None:
        self._stream.write_batch(batch)
        self._statistics = merge((self._statistics, statistics))
        self.rows += batch.num_rows

    def close(self, *, fsync: bool) -> Part:
        self._stream.close()
        self._file.close()
        if fsync:
            sync_file(self._path)
        info = self._path.stat()
        digest = file_sha256(self._path)
        self._path.replace(self._path.with_name(part_name(digest)))
        return Part(part_name(digest), digest, info.st_size, self.rows, self._statistics, info.st_mtime_ns)

    def abort(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


_END = 8
"""Size of the mark that ends a stream, in bytes."""


def _written_bytes(batch: pa.RecordBatch) -> int:
    return int(pa.ipc.get_record_batch_size(batch))


_OPTIONS = pa.ipc.IpcWriteOptions(compression=None, use_threads=False, emit_dictionary_deltas=False)


def relaxed(schema: pa.Schema) -> pa.Schema:
    """The stored form of a schema: every field allows nulls.

    ``datasets`` derives an Arrow schema from its features, in which every field allows nulls, and casts the whole table
    at every open where the stored schema differs. So ``ShardWriter`` checks for nulls itself, and the certificate
    states which columns hold none.
    """
    return pa.schema([pa.field(field.name, _relaxed(field.type)) for field in schema])


def _relaxed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(member.name, _relaxed(member.type)) for member in kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("item", _relaxed(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", _relaxed(kind.value_type)))
    return kind


def _conform(table: pa.Table, schema: pa.Schema, stored: pa.Schema) -> pa.Table:
    """The table cast to the stored schema."""
    if set(table.column_names) != set(schema.names):
        raise ValueError(f"columns {table.column_names}, the shard has {schema.names}")
    return table.select(schema.names).cast(stored)


def _not_null_paths(schema: pa.Schema) -> Iterator[str]:
    """Paths where the schema allows no null. Arrow itself does not check them on writing."""
    for field in schema:
        yield from _not_null_below(field.name, field)


def _not_null_below(path: str, field: pa.Field) -> Iterator[str]:
    if not field.nullable:
        yield path
    if pa.types.is_struct(field.type):
        for member in field.type:
            yield from _not_null_below(f"{path}.{member.name}", member)
    elif pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type):
        yield from _not_null_below(f"{path}[]", field.type.value_field)


def _fitting_rows(table: pa.Table, rows: int, ceiling: int) -> int:
    """Largest number of leading rows, from one to ``rows``, whose size stays within ``ceiling`` bytes."""
    if table.slice(0, rows).nbytes <= ceiling:
        return rows
    low, high = 1, rows
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if table.slice(0, middle).nbytes <= ceiling else (low, middle - 1)
    return low


def _copy(table: pa.Table) -> pa.RecordBatch:
    """The rows in new buffers. The last bitmap byte of a slice also holds bits of other rows, which would get into the
    file."""
    arrays = [
        pa.concat_arrays([*column.chunks, pa.array([], column.type)])
        if column.num_chunks
        else column.combine_chunks()
        for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def empty_shard(folder: Path, schema: pa.Schema, *, fsync: bool = True) -> Part:
    """Write a shard without rows, so that a data set without rows can be opened."""
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        shard = _OpenShard(folder, relaxed(schema), 0)
        # One batch without rows: some readers cannot make a column without chunks.
        shard.write(_empty(relaxed(schema)), {})
        return shard.close(fsync=fsync)
