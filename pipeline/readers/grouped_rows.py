"""Tables with a row a word become documents: the rows with one key are one record.

Where every key has one run of rows (inspection proves it for large files), a group is closed when the key changes.
Elsewhere groups are gathered over the whole file; a large file is then read several times, each time for the keys of
one share (by their hash), so that memory holds one share of it.

A row that could not be read belongs to the group of the row before it, and to that of the row behind it where that
is another: none of them is certified with a word missing. A row without a key is a record by itself.
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

from pipeline.arrow_lists import scatter
from pipeline.batch import Batch, Findings, Int64s
from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FindingCollector, file_fault
from pipeline.readers.formats import BATCH_BYTES, RANGE_BYTES, Inspection, Partition, Reading, reader
from pipeline.readers.header import expected_names
from pipeline.reasons import Reason
from pipeline.values import parse_text
from pipeline.values.grouped import ROWS_COLUMN
from pipeline.values.json_decode import Decoder
from pipeline.values.paths import field_paths

if TYPE_CHECKING:
    import polars as pl

    from pipeline.schema.model import Schema


# Records of one row each as cells, whatever they were read from: what grouping works on.


KEY, ROW, ID, LOST, RAW = "@key", "@row", "@id", "@lost", "@raw"
HELPERS = (KEY, ROW, ID, LOST, RAW, "@order", "@group")
"""Columns that stand beside the cells while rows are grouped: group key, physical row, ordinal, whether the row could
not be read, and its bytes then."""


def rows_as_cells(batch: Batch, keys: pl.Series) -> pl.DataFrame:
    """The cells of a batch with the helper columns."""
    import polars as pl

    assert batch.cells is not None  # noqa: S101
    count = len(batch)
    raw = pl.Series(RAW, [None], pl.Binary).new_from_index(0, count)
    if batch.raw is not None:
        raw = pl.Series(RAW, batch.raw.to_pylist(), pl.Binary)
    return batch.cells.with_columns(
        keys.alias(KEY),
        pl.Series(ROW, batch.rows),
        pl.Series(ID, batch.ids),
        pl.Series(LOST, np.zeros(count, bool) if batch.unread is None else batch.unread),
        raw,
    )


def cells_of_batch(batch: Batch, schema: Schema, fields: Sequence[Field]) -> tuple[Batch, Findings]:
    """The batch with ``cells``: JSON objects by their top-level keys, Arrow columns as text."""
    if batch.cells is not None:
        return batch, Findings()
    if batch.columns is not None:
        return replace(batch, cells=_texts(batch.columns), columns=None), Findings()
    return _of_json(batch, schema, fields)


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    columns = []
    for column in frame.get_columns():
        if column.dtype.is_nested():
            column = column.to_frame().select(pl.struct(column.name).struct.json_encode()).to_series()
        columns.append(column.cast(pl.String).alias(column.name))
    return pl.DataFrame(columns)


def _of_json(batch: Batch, schema: Schema, fields: Sequence[Field]) -> tuple[Batch, Findings]:
    import polars as pl
    import pyarrow as pa

    assert batch.raw is not None  # noqa: S101
    group = schema.read.group_by
    names = dict.fromkeys(
        [*expected_names(fields), *(n for n in (group and group.key, group and group.order) if n)]
    )
    values = [Field(name, name, FieldType(Kind.JSON), required=False) for name in names]
    collector = FindingCollector(schema.policy)
    lost = np.zeros(len(batch), bool) if batch.unread is None else batch.unread
    decoder = Decoder(field_paths(values), schema.policy, schema.read.limits.depth)
    decoded = decoder(batch.raw.filter(pa.array(~lost)), batch.ids[~lost], collector)
    columns = [
        scatter(pl.Series(name, [_cell(v) for v in column.to_list()], pl.String), ~lost).alias(name)
        for name, column in zip(names, decoded, strict=True)
    ]
    findings = collector.findings()
    unread = lost | np.isin(batch.ids, findings.rejected())
    raw = pa.array(
        [value if bad else None for value, bad in zip(batch.raw.to_pylist(), unread, strict=True)],
        pa.binary(),
    )
    return replace(batch, cells=pl.DataFrame(columns), raw=raw, unread=unread), findings


def _cell(text: str | None) -> str | None:
    """A JSON value as a cell would show it."""
    return json.loads(text) if text is not None and text.startswith('"') else text


# Rows with their group keys become records: one a group, in the order of their first rows.


ROWS_AT_ONCE = 100_000
"""A batch of documents ends behind the group that reaches so many rows."""

RowHit = tuple[Reason, str, str, str, str]


class DocumentBuilder:
    """Makes batches of documents.

    Args:
        order: column of whole numbers that orders the rows of a group.
    """

    def __init__(self, partition: Partition, schema: Schema, order: str | None) -> None:
        self._partition, self._schema, self._order = partition, schema, order
        self._found: dict[int, list[RowHit]] = {}
        self._records = 0
        self._decimal = "."

    def note(self, batch: Batch, findings: Findings) -> None:
        """Remember what was found on rows, for the documents they become part of."""
        self._decimal = batch.decimal
        for item in findings.items:
            for i, row in enumerate(item.ids.tolist()):
                texts = (v if isinstance(v, str) else v[i] for v in (item.paths, item.found, item.expected))
                self._found.setdefault(row, []).append((item.reason, item.column, *texts))  # type: ignore[arg-type]

    def batches(self, table: pl.DataFrame) -> Iterator[tuple[Batch, Findings]]:
        """The documents of these rows."""
        import polars as pl

        order = pl.col(ROW)
        if self._order is not None:
            order = pl.lit(parse_text.parse_cells(table.get_column(self._order), Kind.INTEGER).values)
        # A document's row is its first row that could be read.
        first = pl.coalesce(pl.col(ROW).filter(~pl.col(LOST)).min(), pl.col(ROW).min()).over(KEY)
        group = pl.when(pl.col(KEY).is_null()).then(ROW).otherwise(first)
        table = table.with_columns(order.alias("@order"), group.alias("@group"))
        table = table.sort("@group", "@order", ROW, nulls_last=True)
        starts = np.flatnonzero(np.diff(table["@group"].to_numpy(), prepend=-1))
        at = 0
        while at < len(starts):
            until = int(np.searchsorted(starts, starts[at] + ROWS_AT_ONCE)) or at + 1
            until = max(until, at + 1)
            end = int(starts[until]) if until < len(starts) else table.height
            yield self._batch(table[int(starts[at]) : end], starts[at:until] - starts[at])
            at = until

    def _batch(self, table: pl.DataFrame, starts: Int64s) -> tuple[Batch, Findings]:
        import polars as pl
        import pyarrow as pa

        count = len(starts)
        ids = np.arange(self._records, self._records + count, dtype=np.int64)
        self._records += count
        owner = np.repeat(np.arange(count), np.diff(starts, append=table.height))
        lost = table[LOST].to_numpy()
        read = table.filter(~pl.col(LOST))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner[~lost], minlength=count))])
        borders = pa.array(offsets.astype(np.int64))
        columns = []
        for name in [ROWS_COLUMN, *(n for n in table.columns if n not in HELPERS)]:
            values = read[ROW if name == ROWS_COLUMN else name].to_arrow(compat_level=pl.CompatLevel.oldest())
            columns.append(pl.Series(name, pl.from_arrow(pa.LargeListArray.from_arrays(borders, values))))
        raw = unread = None
        if lost.any():
            unread = np.bincount(owner[lost], minlength=count) > 0
            parts: list[list[bytes]] = [[] for _ in range(count)]
            for i in np.flatnonzero(lost).tolist():
                parts[owner[i]].append(table[RAW][i] or b"")
            raw = pa.array([b"\n".join(part) if part else None for part in parts], pa.binary())
        first = table["@group"].to_numpy()[starts].astype(np.int64)
        batch = Batch(
            self._partition.source, self._partition.sheet, ids, first, pl.DataFrame(), pl.DataFrame(columns), raw,
            unread, self._decimal,
        )  # fmt: skip
        return batch, self._findings(table, owner, ids)

    def _findings(self, table: pl.DataFrame, owner: Int64s, ids: Int64s) -> Findings:
        collector = FindingCollector(self._schema.policy)
        places = ids[owner].tolist()
        for record, row, number in zip(places, table[ID].to_list(), table[ROW].to_list(), strict=True):
            for reason, column, path, found, expected in self._found.get(row, ()) if self._found else ():
                collector.add(reason, column, record, f"row {number} {path}".rstrip(), found, expected)
        key = self._schema.read.group_by.key if self._schema.read.group_by else None
        nameless = (table[KEY].is_null() & ~table[LOST]).to_numpy()
        for i in np.flatnonzero(nameless).tolist():
            collector.add(
                Reason.GROUP_KEY_MISSING, key or "", places[i], f"row {table[ROW][i]}", "blank", repr(key)
            )
        if self._order is not None:
            self._unordered(table, places, collector)
        return collector.findings()

    def _unordered(self, table: pl.DataFrame, places: list[int], collector: FindingCollector) -> None:
        """Rows without a place in their group, and places that two rows claim."""
        numbers = table["@order"].to_list()
        last: tuple[int, int | None] | None = None
        for i, (record, number, lost) in enumerate(zip(places, numbers, table[LOST].to_list(), strict=True)):
            path = f"row {table[ROW][i]}"
            if lost:
                continue
            if number is None:
                collector.add(
                    Reason.VALUE_TYPE, self._order or "", record, path, "no whole number", "an integer"
                )
            elif last == (record, number):
                collector.add(Reason.GROUP_INCONSISTENT, self._order or "", record, path, f"{number} twice")
            last = (record, number)


# Row-per-word tables become documents: the rows with one key are one record, its cells lists with one entry
# a row.


FLUSH_ROWS = 100_000
"""Rows held before whole groups are handed on."""


def plan_groups(inspection: Inspection, path: Path, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """The inspection of a grouped file, with the way each partition's groups are read.

    Small files are gathered in one go; a large one is read once to see whether each key has one run of rows. Raises
    ``FileFault`` when the key or order column is missing.
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
        if shares > 1 and _contiguous(partition, path, schema, fields):
            parts.append(replace(partition, order=len(parts), grouping="runs"))
            continue
        for share in range(shares):
            parts.append(replace(partition, order=len(parts), grouping="gather", share=share, shares=shares))
    return replace(inspection, partitions=tuple(parts))


def group_rows(reading: Reading, partition: Partition, schema: Schema, fields: Sequence[Field]) -> Reading:
    """The reading of a grouped table: one record a group. Cells are lists, with the rows in ``@rows``.

    Raises ``FileFault`` for a group over the limit of a record.
    """

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        groups = _Groups(partition, schema)
        for batch, findings in reading:
            rows, more = cells_of_batch(batch, schema, fields)
            findings.extend(more)
            groups.add(rows, group_keys(rows, schema), findings)
            yield from groups.take(everything=False)
        yield from groups.take(everything=True)
        dropped.update(reading.dropped if partition.share == 0 else {})

    return Reading(batches)


def group_keys(batch: Batch, schema: Schema) -> pl.Series:
    """The group key of each row, null where it is blank or the row unread; an empty text where the whole file is
    one group."""
    import polars as pl

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
    """A hash that is the same on every machine."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")


def _contiguous(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> bool:
    """Whether the rows of each key follow each other."""
    seen: set[int] = set()
    last: str | None = None
    for batch, _ in reader(partition.format, partition.source).read(partition, path, schema, fields):
        rows, _ = cells_of_batch(batch, schema, fields)
        for key in group_keys(rows, schema).drop_nulls().rle().struct.field("value").to_list():
            if key != last:
                last, code = key, group_hash(key)
                if code in seen:
                    return False
                seen.add(code)
    return True


class _Groups:
    """Collects rows and hands on whole groups as batches."""

    def __init__(self, partition: Partition, schema: Schema) -> None:

        group = schema.read.group_by
        assert group is not None  # noqa: S101
        self._partition, self._one = partition, group.key is None
        self._limit = max(schema.read.limits.record_mb * 2**20, BATCH_BYTES)
        self._documents = DocumentBuilder(partition, schema, group.order)
        self._last: str | None = None  # key of the last row that has one
        self._tail: list[
            pl.DataFrame
        ] = []  # from an unread row at the end: the key behind it is not known yet
        self._kept: list[pl.DataFrame] = []

    def add(self, batch: Batch, keys: pl.Series, findings: Findings) -> None:
        """Take over rows and what was found on them."""
        import polars as pl

        self._documents.note(batch, findings)
        table = pl.concat([*self._tail, rows_as_cells(batch, keys)])
        keyed = np.flatnonzero(table[KEY].is_not_null().to_numpy())
        cut = int(keyed[-1]) + 1 if len(keyed) else 0
        lost = np.flatnonzero(table[LOST].to_numpy()[cut:])
        cut = cut + int(lost[0]) if len(lost) else table.height
        self._tail = [table[cut:]]
        self._keep(table[:cut])

    def take(self, *, everything: bool) -> Iterator[tuple[Batch, Findings]]:
        """Batches of the groups that are whole."""
        import polars as pl

        if everything and self._tail:
            self._keep(self._tail.pop())
        runs = self._partition.grouping == "runs"
        size = int(sum(part.estimated_size() for part in self._kept))
        if (
            runs
            and self._kept
            and (everything or size >= BATCH_BYTES or sum(p.height for p in self._kept) >= FLUSH_ROWS)
        ):
            table = pl.concat(self._kept)
            open_ = pl.lit(False) if everything else pl.col(KEY).eq_missing(pl.lit(self._last, pl.String))
            self._kept = [table.filter(open_)]
            size = int(self._kept[0].estimated_size())
            yield from self._documents.batches(table.filter(~open_))
        elif everything and self._kept:
            yield from self._documents.batches(pl.concat(self._kept))
        if (runs or self._one) and size > self._limit:
            what = f"{size >> 20} MB in one group"
            raise file_fault(Reason.FILE_LIMIT, self._partition.source, what, f"{self._limit >> 20} MB")

    def _keep(self, table: pl.DataFrame) -> None:
        """Give unread rows their groups, and keep the rows of this share of the keys."""
        import polars as pl

        if not table.height:
            return
        keyed = table.with_columns(
            before=pl.col(KEY).forward_fill().fill_null(pl.lit(self._last, pl.String)),
            behind=pl.col(KEY).backward_fill(),
        )
        self._last = keyed["before"][-1]
        lost = pl.col(LOST)
        first = keyed.with_columns(
            pl.when(lost).then(pl.coalesce("before", "behind")).otherwise(KEY).alias(KEY)
        )
        again = keyed.filter(lost & pl.col("before").is_not_null() & (pl.col("before") != pl.col("behind")))
        again = again.with_columns(pl.col("behind").alias(KEY))
        rows = (
            pl.concat([first, again]).drop("before", "behind")
            if again.height
            else first.drop("before", "behind")
        )
        if self._partition.shares > 1:
            keys = rows[KEY].unique(maintain_order=True)
            mine = pl.DataFrame({KEY: keys, "mine": [self._is_mine(key) for key in keys]})
            rows = rows.join(mine, on=KEY, how="left", nulls_equal=True, maintain_order="left")
            rows = rows.filter("mine").drop("mine")
        self._kept.append(rows)

    def _is_mine(self, key: str | None) -> bool:
        """Whether the group belongs to this share; rows without a key belong to the first one."""
        code = 0 if key is None else group_hash(key)
        return code % self._partition.shares == self._partition.share
