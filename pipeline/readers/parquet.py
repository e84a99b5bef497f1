"""Parquet and Arrow files, also those that ``datasets`` saves: records in the types of the file.

Only the columns that the schema reads are loaded. A type that a polars frame does not have is converted (dictionaries
to their values, decimals to text or, for a field of numbers, to numbers, maps to lists of pairs) or refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings
from pipeline.fields import Kind
from pipeline.findings import FileFault, FileNote, file_fault
from pipeline.readers.formats import BATCH_BYTES, BATCH_ROWS, RANGE_BYTES, Inspection, Partition, Reading
from pipeline.readers.header import align_header, expected_names, prove_header
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema

_MAGIC = b"ARROW1"
_NUMERIC = (Kind.INTEGER, Kind.NUMBER)


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the columns, and cut a Parquet file between row groups into ranges of about ``RANGE_BYTES``.

    Raises ``FileFault`` for a file that cannot be opened, a missing column, or a column of an unsupported type.
    """
    with _errors_as_faults(claim.source, claim.format):
        if claim.format == "parquet":
            arrow, ranges = _row_ranges(claim.path)
        else:
            with _open_arrow(claim.path) as reader:
                arrow, ranges = reader.schema, [(0, 0)]
    prove_header(arrow.names, fields, claim.source)
    columns = _read_columns(arrow, fields)
    for name in columns:
        _plain_type(arrow.field(name).type, name, claim.source)
    notes = (FileNote(Reason.FILE_EMPTY, claim.source, "no rows", "rows"),) if not ranges else ()
    return Inspection(
        tuple(
            Partition(
                claim.source,
                claim.schema_index,
                claim.format,
                order,
                start=start,
                end=end,
                first_row=start + 1,
                header=columns,
            )
            for order, (start, end) in enumerate(ranges)
        ),
        notes,
    )


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of columns in the types of the file, under the names of the schema."""

    def batches(_: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        count = 0
        names = align_header(partition.header, expected_names(fields))
        numeric = {field.path: field.type.kind for field in fields if field.type.kind in _NUMERIC}
        with _errors_as_faults(partition.source, partition.format):
            for table in _record_batches(partition, path):
                for part in _slice_batch(table):
                    columns = _to_frame(part, partition.source, names, [numeric.get(name) for name in names])
                    ids = np.arange(count, count + len(columns), dtype=np.int64)
                    rows = ids + partition.first_row
                    yield (
                        Batch(partition.source, None, ids, rows, pl.DataFrame(), columns=columns),
                        Findings(),
                    )
                    count += len(columns)

    return Reading(batches)


def _read_columns(arrow: pa.Schema, fields: Sequence[Field]) -> tuple[str, ...]:
    """Columns that the schema reads, as the file spells them, in its order."""
    wanted = expected_names(fields)
    return tuple(
        name
        for name, wanted_name in zip(arrow.names, align_header(arrow.names, wanted), strict=True)
        if wanted_name in wanted
    )


def _row_ranges(path: Path) -> tuple[pa.Schema, list[tuple[int, int]]]:
    """The Arrow schema, and ranges of rows [start, end) that begin and end with a row group."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        ranges: list[tuple[int, int]] = []
        start = row = size = 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            row += group.num_rows
            size += group.total_byte_size
            if size >= RANGE_BYTES or (index == metadata.num_row_groups - 1 and row > start):
                ranges.append((start, row))
                start, size = row, 0
        return file.schema_arrow, ranges


@contextmanager
def _open_arrow(path: Path) -> Iterator[pa.RecordBatchReader]:
    """The record batches of an Arrow file or stream, mapped into memory."""
    with pa.memory_map(str(path)) as source:
        magic = source.read(len(_MAGIC))
        source.seek(0)
        if magic != _MAGIC:
            with pa.ipc.open_stream(source) as reader:
                yield reader
            return
        with pa.ipc.open_file(source) as file:
            batches = (file.get_batch(index) for index in range(file.num_record_batches))
            yield pa.RecordBatchReader.from_batches(file.schema, batches)


def _record_batches(partition: Partition, path: Path) -> Iterator[pa.RecordBatch]:
    """Record batches of the partition, with only its columns."""
    columns = list(partition.header)
    if partition.format == "arrow":
        with _open_arrow(path) as reader:
            for batch in reader:
                batch.validate(full=True)  # a damaged file may have offsets out of range
                yield batch.select(columns)
        return
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        groups, row = [], 0
        for index in range(file.metadata.num_row_groups):
            if partition.start <= row < partition.end:
                groups.append(index)
            row += file.metadata.row_group(index).num_rows
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
            yield batch.select(columns)


def _slice_batch(table: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of at most ``BATCH_ROWS`` rows and about ``BATCH_BYTES``."""
    rows = BATCH_ROWS
    if table.num_rows:
        rows = max(1, min(rows, int(BATCH_BYTES * table.num_rows / max(table.nbytes, 1))))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _to_frame(
    table: pa.RecordBatch, source: str, names: Sequence[str], numeric: Sequence[Kind | None]
) -> pl.DataFrame:
    """The columns under the schema's names. ``numeric``: for each column, the kind of its field if that is a number."""
    arrays = []
    for name, array, kind in zip(table.schema.names, table.columns, numeric, strict=True):
        plain = _plain_type(array.type, name, source)
        if kind is not None and pa.types.is_decimal(array.type):
            arrays.append(_decimals_as_numbers(array, kind))
        else:
            arrays.append(array if array.type == plain else array.cast(plain))
    frame = pl.from_arrow(pa.Table.from_arrays(arrays, names=list(names)))
    assert isinstance(frame, pl.DataFrame)  # noqa: S101
    return frame


def _decimals_as_numbers(decimals: pa.Array, kind: Kind) -> pa.Array:
    """Decimals as the nearest doubles, through their text: the cast of the library may be off by one bit. Decimals
    without a fraction become integers for an integer field if 64 bits hold them all."""
    if kind is Kind.INTEGER and decimals.type.scale <= 0:
        with suppress(pa.ArrowInvalid):
            return decimals.cast(pa.int64())
    return decimals.cast(pa.string()).cast(pa.float64())


def _plain_type(type_: pa.DataType, name: str, source: str) -> pa.DataType:
    """The type that a frame supports and that keeps all values of a column. Raises ``FileFault`` if there is none."""
    is_ = pa.types

    def inner(part: pa.DataType) -> pa.DataType:
        return _plain_type(part, name, source)

    if isinstance(type_, pa.BaseExtensionType):
        return inner(type_.storage_type)
    if is_.is_dictionary(type_):
        return inner(type_.value_type)
    if is_.is_decimal(type_):
        return pa.string()
    if is_.is_float16(type_):
        return pa.float32()
    if is_.is_map(type_):
        pair = [("key", inner(type_.key_type)), ("value", inner(type_.item_type))]
        return pa.list_(pa.struct(pair))
    if is_.is_fixed_size_list(type_):
        return pa.list_(inner(type_.value_type), type_.list_size)
    if is_.is_large_list(type_) or is_.is_list(type_):
        plain = inner(type_.value_type)
        if plain == type_.value_type:
            return type_
        return pa.large_list(plain) if is_.is_large_list(type_) else pa.list_(plain)
    if is_.is_struct(type_):
        members = [(field.name, inner(field.type)) for field in type_]
        return (
            type_
            if all(f.type == t for f, (_, t) in zip(type_, members, strict=True))
            else pa.struct(members)
        )
    if is_.is_nested(type_) or is_.is_interval(type_) or is_.is_run_end_encoded(type_):
        raise file_fault(
            Reason.FILE_UNREADABLE, source, f"the column {name!r} of type {type_}", "a plain type"
        )
    return type_


@contextmanager
def _errors_as_faults(source: str, format_: str) -> Iterator[None]:
    """Turn the errors of the library into a fault of the file, without the library's message."""
    try:
        yield
    except FileFault:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        kind = "a Parquet" if format_ == "parquet" else "an Arrow"
        raise file_fault(
            Reason.FILE_UNREADABLE, source, f"broken data ({type(error).__name__})", f"{kind} file"
        ) from error
