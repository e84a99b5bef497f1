"""Tables with one row a word become documents: the rows with the same key form one record.

If the rows of every key are consecutive (inspection proves it for large files), a group ends where the key changes.
Otherwise groups are gathered over the whole file. A large file is then read several times, each time for one share of
the keys (by hash), so that memory holds only that share.

An unread row belongs to the group of the row before it, and to that of the row after it if that is another group: no
document with a missing word is certified. A row without a key is a record by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.arrow_lists import scatter
from pipeline.batch import Batch, Findings, Int64s
from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FindingCollector, file_fault
from pipeline.readers.formats import BATCH_BYTES, RANGE_BYTES, Inspection, Partition, Reading, load_reader
from pipeline.readers.header import expected_names
from pipeline.reasons import Reason
from pipeline.values import parse_text
from pipeline.values.grouped import ROWS_COLUMN
from pipeline.values.json_decode import Decoder
from pipeline.values.paths import field_paths

if TYPE_CHECKING:
    from pipeline.schema.model import Schema


# Rows as cells, whatever their format

KEY, ROW, ID, UNREAD, RAW = "@key", "@row", "@id", "@unread", "@raw"
GROUPING_COLUMNS = (KEY, ROW, ID, UNREAD, RAW, "@order", "@group")
"""Columns beside the cells while rows are grouped: group key, physical row, ordinal, whether the row is unread and its
bytes, rank within the group, and first row of the group."""


def rows_as_cells(batch: Batch, keys: pl.Series) -> pl.DataFrame:
    """The cells of a batch with the grouping columns."""
    assert batch.cells is not None  # noqa: S101
    count = len(batch)
    raw = pl.Series(RAW, [None], pl.Binary).new_from_index(0, count)
    if batch.raw is not None:
        raw = pl.Series(RAW, batch.raw.to_pylist(), pl.Binary)
    return batch.cells.with_columns(
        keys.alias(KEY),
        pl.Series(ROW, batch.rows),
        pl.Series(ID, batch.ids),
        pl.Series(UNREAD, np.zeros(count, bool) if batch.unread is None else batch.unread),
        raw,
    )


def cells_of_batch(batch: Batch, schema: Schema, fields: Sequence[Field]) -> tuple[Batch, Findings]:
    """The batch with ``cells``: JSON objects by their top-level keys, Arrow columns as text."""
    if batch.cells is not None:
        return batch, Findings()
    if batch.columns is not None:
        return replace(batch, cells=_columns_as_text(batch.columns), columns=None), Findings()
    return _json_as_cells(batch, schema, fields)


def _columns_as_text(frame: pl.DataFrame) -> pl.DataFrame:
    columns = []
    for column in frame.get_columns():
        if column.dtype.is_nested():
            column = column.to_frame().select(pl.struct(column.name).struct.json_encode()).to_series()
        columns.append(column.cast(pl.String).alias(column.name))
    return pl.DataFrame(columns)


def _json_as_cells(batch: Batch, schema: Schema, fields: Sequence[Field]) -> tuple[Batch, Findings]:
    assert batch.raw is not None  # noqa: S101
    group = schema.read.group_by
    names = dict.fromkeys(
        [*expected_names(fields), *(n for n in (group and group.key, group and group.order) if n)]
    )
    values = [Field(name, name, FieldType(Kind.JSON), required=False) for name in names]
    collector = FindingCollector(schema.policy)
    unread_rows = np.zeros(len(batch), bool) if batch.unread is None else batch.unread
    decoder = Decoder(field_paths(values), schema.policy, schema.read.limits.depth)
    decoded = decoder(batch.raw.filter(pa.array(~unread_rows)), batch.ids[~unread_rows], collector)
    columns = [
        scatter(pl.Series(name, [_json_as_cell(v) for v in column.to_list()], pl.String), ~unread_rows).alias(
            name
        )
        for name, column in zip(names, decoded, strict=True)
    ]
    findings = collector.findings()
    unread_now = unread_rows | np.isin(batch.ids, findings.rejected())
    raw = pa.array(
        [value if bad else None for value, bad in zip(batch.raw.to_pylist(), unread_now, strict=True)],
        pa.binary(),
    )
    return replace(batch, cells=pl.DataFrame(columns), raw=raw, unread=unread_now), findings


def _json_as_cell(text: str | None) -> str | None:
    """A JSON value as a cell shows it."""
    return json.loads(text) if text is not None and text.startswith('"') else text


# Groups of rows become documents, in the order of their first rows

DOCUMENT_BATCH_ROWS = 100_000
"""A batch of documents ends after the group that reaches so many rows."""

RowFinding = tuple[Reason, str, str, str, str]


class DocumentBuilder:
    """Makes batches of documents from grouped rows.

    Args:
        order: name of the integer column that orders the rows of a group.
    """

    def __init__(self, partition: Partition, schema: Schema, order: str | None) -> None:
        self._partition, self._schema, self._order = partition, schema, order
        self._row_findings: dict[int, list[RowFinding]] = {}
        self._records = 0
        self._decimal = "."

    def add_findings(self, batch: Batch, findings: Findings) -> None:
        """Keep the findings on rows for the documents that the rows belong to."""
        self._decimal = batch.decimal
        for item in findings.items:
            for i, row in enumerate(item.ids.tolist()):
                texts = (v if isinstance(v, str) else v[i] for v in (item.paths, item.found, item.expected))
                self._row_findings.setdefault(row, []).append((item.reason, item.column, *texts))  # type: ignore[arg-type]

    def batches(self, table: pl.DataFrame) -> Iterator[tuple[Batch, Findings]]:
        """The documents of these rows."""
        order = pl.col(ROW)
        if self._order is not None:
            order = pl.lit(parse_text.parse_cells(table.get_column(self._order), Kind.INTEGER).values)
        # The row of a document is its first row that is not unread.
        first = pl.coalesce(pl.col(ROW).filter(~pl.col(UNREAD)).min(), pl.col(ROW).min()).over(KEY)
        group = pl.when(pl.col(KEY).is_null()).then(ROW).otherwise(first)
        table = table.with_columns(order.alias("@order"), group.alias("@group"))
        table = table.sort("@group", "@order", ROW, nulls_last=True)
        starts = np.flatnonzero(np.diff(table["@group"].to_numpy(), prepend=-1))
        at = 0
        while at < len(starts):
            until = int(np.searchsorted(starts, starts[at] + DOCUMENT_BATCH_ROWS)) or at + 1
            until = max(until, at + 1)
            end = int(starts[until]) if until < len(starts) else table.height
            yield self._batch(table[int(starts[at]) : end], starts[at:until] - starts[at])
            at = until

    def _batch(self, table: pl.DataFrame, starts: Int64s) -> tuple[Batch, Findings]:
        count = len(starts)
        ids = np.arange(self._records, self._records + count, dtype=np.int64)
        self._records += count
        owner = np.repeat(np.arange(count), np.diff(starts, append=table.height))
        unread_rows = table[UNREAD].to_numpy()
        read = table.filter(~pl.col(UNREAD))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner[~unread_rows], minlength=count))])
        borders = pa.array(offsets.astype(np.int64))
        columns = []
        for name in [ROWS_COLUMN, *(n for n in table.columns if n not in GROUPING_COLUMNS)]:
            values = read[ROW if name == ROWS_COLUMN else name].to_arrow(compat_level=pl.CompatLevel.oldest())
            columns.append(pl.Series(name, pl.from_arrow(pa.LargeListArray.from_arrays(borders, values))))
        raw = unread = None
        if unread_rows.any():
            unread = np.bincount(owner[unread_rows], minlength=count) > 0
            parts: list[list[bytes]] = [[] for _ in range(count)]
            for i in np.flatnonzero(unread_rows).tolist():
                parts[owner[i]].append(table[RAW][i] or b"")
            raw = pa.array([b"\n".join(part) if part else None for part in parts], pa.binary())
        first = table["@group"].to_numpy()[starts].astype(np.int64)
        batch = Batch(
            self._partition.source,
            self._partition.sheet,
            ids,
            first,
            pl.DataFrame(),
            pl.DataFrame(columns),
            raw,
            unread,
            self._decimal,
        )
        return batch, self._findings(table, owner, ids)

    def _findings(self, table: pl.DataFrame, owner: Int64s, ids: Int64s) -> Findings:
        collector = FindingCollector(self._schema.policy)
        records = ids[owner].tolist()
        for record, row, number in zip(records, table[ID].to_list(), table[ROW].to_list(), strict=True):
            for reason, column, path, found, expected in (
                self._row_findings.get(row, ()) if self._row_findings else ()
            ):
                collector.add(reason, column, record, f"row {number} {path}".rstrip(), found, expected)
        key = self._schema.read.group_by.key if self._schema.read.group_by else None
        without_key = (table[KEY].is_null() & ~table[UNREAD]).to_numpy()
        for i in np.flatnonzero(without_key).tolist():
            collector.add(
                Reason.GROUP_KEY_MISSING, key or "", records[i], f"row {table[ROW][i]}", "blank", repr(key)
            )
        if self._order is not None:
            self._report_order(table, records, collector)
        return collector.findings()

    def _report_order(self, table: pl.DataFrame, records: list[int], collector: FindingCollector) -> None:
        """Report rows without a rank in their group, and ranks that two rows have."""
        numbers = table["@order"].to_list()
        last: tuple[int, int | None] | None = None
        for i, (record, number, unread) in enumerate(
            zip(records, numbers, table[UNREAD].to_list(), strict=True)
        ):
            path = f"row {table[ROW][i]}"
            if unread:
                continue
            if number is None:
                collector.add(
                    Reason.VALUE_TYPE, self._order or "", record, path, "no whole number", "an integer"
                )
            elif last == (record, number):
                collector.add(Reason.GROUP_INCONSISTENT, self._order or "", record, path, f"{number} twice")
            last = (record, number)


# The grouping of a partition

FLUSH_ROWS = 100_000
"""Rows held before complete groups are released."""


def plan_groups(inspection: Inspection, path: Path, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """The inspection of a grouped file, with the way each partition's groups are read.

    A small file is gathered at once; a large one is read once to test whether the rows of each key are consecutive.
    Raises ``FileFault`` if the key or order column is missing.
    """
    group = schema.read.group_by
    assert group is not None  # noqa: S101
    parts: list[Partition] = []
    shares = -(-path.stat().st_size // RANGE_BYTES) if group.key is not None else 1
    for partition in inspection.partitions:
        for column in (group.key, group.order):
            if column is not None and partition.header and column not in partition.header:
                shown = ", ".join(repr(n[:40]) for n in partition.header[:20])
                raise file_fault(Reason.HEADER_MISSING, partition.source, shown, repr(column))
        if shares > 1 and _has_contiguous_keys(partition, path, schema, fields):
            parts.append(replace(partition, order=len(parts), grouping="runs"))
            continue
        for share in range(shares):
            parts.append(replace(partition, order=len(parts), grouping="gather", share=share, shares=shares))
    return replace(inspection, partitions=tuple(parts))


def group_rows(reading: Reading, partition: Partition, schema: Schema, fields: Sequence[Field]) -> Reading:
    """The reading of a grouped table: one record a group. Cells are lists, with the physical rows in ``@rows``.

    Raises ``FileFault`` for a group over the size limit of a record.
    """

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        groups = _GroupCollector(partition, schema)
        for batch, findings in reading:
            rows, more = cells_of_batch(batch, schema, fields)
            findings.extend(more)
            groups.add(rows, group_keys(rows, schema), findings)
            yield from groups.complete_groups(everything=False)
        yield from groups.complete_groups(everything=True)
        dropped.update(reading.dropped if partition.share == 0 else {})

    return Reading(batches)


def group_keys(batch: Batch, schema: Schema) -> pl.Series:
    """The group key of each row, null if it is blank or the row unread; "" if the whole file is one group."""
    group = schema.read.group_by
    assert group is not None and batch.cells is not None  # noqa: S101
    none = pl.Series(KEY, [None], pl.String).new_from_index(0, len(batch))
    if group.key is None:
        return none.fill_null("")
    if group.key not in batch.cells.columns:
        return none
    keys = batch.cells.get_column(group.key).alias(KEY)
    return keys.set((keys.str.strip_chars() == "").fill_null(True), None)


def group_hash(key: str) -> int:
    """A hash of a key that is equal on every machine."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")


def _has_contiguous_keys(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> bool:
    """Whether the rows of each key are consecutive."""
    seen: set[int] = set()
    last: str | None = None
    for batch, _ in load_reader(partition.format, partition.source).read(partition, path, schema, fields):
        rows, _ = cells_of_batch(batch, schema, fields)
        for key in group_keys(rows, schema).drop_nulls().rle().struct.field("value").to_list():
            if key != last:
                last, code = key, group_hash(key)
                if code in seen:
                    return False
                seen.add(code)
    return True


class _GroupCollector:
    """Collects rows and releases complete groups as batches of documents."""

    def __init__(self, partition: Partition, schema: Schema) -> None:
        group = schema.read.group_by
        assert group is not None  # noqa: S101
        self._partition, self._whole_file = partition, group.key is None
        self._limit = max(schema.read.limits.record_mb * 2**20, BATCH_BYTES)
        self._documents = DocumentBuilder(partition, schema, group.order)
        self._last_key: str | None = None  # key of the last row that has one
        # Unread rows at the end: the key after them is not known yet.
        self._tail: list[pl.DataFrame] = []
        self._pending: list[pl.DataFrame] = []

    def add(self, batch: Batch, keys: pl.Series, findings: Findings) -> None:
        """Add rows and the findings on them."""
        self._documents.add_findings(batch, findings)
        table = pl.concat([*self._tail, rows_as_cells(batch, keys)])
        keyed = np.flatnonzero(table[KEY].is_not_null().to_numpy())
        cut = int(keyed[-1]) + 1 if len(keyed) else 0
        unread = np.flatnonzero(table[UNREAD].to_numpy()[cut:])
        cut = cut + int(unread[0]) if len(unread) else table.height
        self._tail = [table[cut:]]
        self._assign_groups(table[:cut])

    def complete_groups(self, *, everything: bool) -> Iterator[tuple[Batch, Findings]]:
        """Batches of the groups that are complete."""
        if everything and self._tail:
            self._assign_groups(self._tail.pop())
        runs = self._partition.grouping == "runs"
        size = int(sum(part.estimated_size() for part in self._pending))
        if (
            runs
            and self._pending
            and (everything or size >= BATCH_BYTES or sum(p.height for p in self._pending) >= FLUSH_ROWS)
        ):
            table = pl.concat(self._pending)
            open_ = pl.lit(False) if everything else pl.col(KEY).eq_missing(pl.lit(self._last_key, pl.String))
            self._pending = [table.filter(open_)]
            size = int(self._pending[0].estimated_size())
            yield from self._documents.batches(table.filter(~open_))
        elif everything and self._pending:
            yield from self._documents.batches(pl.concat(self._pending))
        if (runs or self._whole_file) and size > self._limit:
            what = f"{size >> 20} MB in one group"
            raise file_fault(Reason.FILE_LIMIT, self._partition.source, what, f"{self._limit >> 20} MB")

    def _assign_groups(self, table: pl.DataFrame) -> None:
        """Assign unread rows to groups, and hold the rows of this share of the keys."""
        if not table.height:
            return
        neighbours = table.with_columns(
            before=pl.col(KEY).forward_fill().fill_null(pl.lit(self._last_key, pl.String)),
            after=pl.col(KEY).backward_fill(),
        )
        self._last_key = neighbours["before"][-1]
        unread = pl.col(UNREAD)
        first = neighbours.with_columns(
            pl.when(unread).then(pl.coalesce("before", "after")).otherwise(KEY).alias(KEY)
        )
        repeated = neighbours.filter(
            unread & pl.col("before").is_not_null() & (pl.col("before") != pl.col("after"))
        )
        repeated = repeated.with_columns(pl.col("after").alias(KEY))
        rows = (
            pl.concat([first, repeated]).drop("before", "after")
            if repeated.height
            else first.drop("before", "after")
        )
        if self._partition.shares > 1:
            keys = rows[KEY].unique(maintain_order=True)
            in_share = pl.DataFrame({KEY: keys, "in_share": [self._is_in_share(key) for key in keys]})
            rows = rows.join(in_share, on=KEY, how="left", nulls_equal=True, maintain_order="left")
            rows = rows.filter("in_share").drop("in_share")
        self._pending.append(rows)

    def _is_in_share(self, key: str | None) -> bool:
        """Whether a group belongs to this share; rows without a key belong to the first share."""
        code = 0 if key is None else group_hash(key)
        return code % self._partition.shares == self._partition.share
