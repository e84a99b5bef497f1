"""Row-per-word tables become documents: the rows with one key are one record, its cells lists with one entry a row.

Where every key has one run of rows (inspection proves it for large files), a group is closed when the key changes.
Elsewhere groups are gathered over the whole file; a large file is then read several times, each time for the keys of
one share (by their hash), so that memory holds one share of it.

A row that could not be read belongs to the group of the row before it, and to that of the row behind it where that
is another: none of them is certified with a word missing. A row without a key is a record by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings
from pipeline.reasons import Reason
from pipeline.sources.fault import fault
from pipeline.sources.partition import BATCH_BYTES, RANGE_BYTES, Inspection, Partition, Reading, reader
from pipeline.sources.rows import KEY, LOST, as_cells, flat_rows

if TYPE_CHECKING:
    import polars as pl

    from pipeline.fields import Field
    from pipeline.schema.model import Schema

FLUSH_ROWS = 100_000
"""Rows held before whole groups are handed on."""


def plan(inspection: Inspection, path: Path, schema: Schema, fields: Sequence[Field]) -> Inspection:
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
                raise fault(Reason.HEADER_MISSING, partition.source, shown, repr(column))
        if shares > 1 and _contiguous(partition, path, schema, fields):
            parts.append(replace(partition, order=len(parts), grouping="runs"))
            continue
        for share in range(shares):
            parts.append(replace(partition, order=len(parts), grouping="gather", share=share, shares=shares))
    return replace(inspection, partitions=tuple(parts))


def grouped(reading: Reading, partition: Partition, schema: Schema, fields: Sequence[Field]) -> Reading:
    """The reading of a grouped table: one record a group. Cells are lists, with the rows in ``@rows``.

    Raises ``FileFault`` for a group over the limit of a record.
    """

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        groups = _Groups(partition, schema)
        for batch, findings in reading:
            rows, more = as_cells(batch, schema, fields)
            findings.extend(more)
            groups.add(rows, keys_of(rows, schema), findings)
            yield from groups.take(everything=False)
        yield from groups.take(everything=True)
        dropped.update(reading.dropped if partition.share == 0 else {})

    return Reading(batches)


def keys_of(batch: Batch, schema: Schema) -> pl.Series:
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


def hash_of(key: str) -> int:
    """A hash that is the same on every machine."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little")


def _contiguous(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> bool:
    """Whether the rows of each key follow each other."""
    seen: set[int] = set()
    last: str | None = None
    for batch, _ in reader(partition.format, partition.source).read(partition, path, schema, fields):
        rows, _ = as_cells(batch, schema, fields)
        for key in keys_of(rows, schema).drop_nulls().rle().struct.field("value").to_list():
            if key != last:
                last, code = key, hash_of(key)
                if code in seen:
                    return False
                seen.add(code)
    return True


class _Groups:
    """Collects rows and hands on whole groups as batches."""

    def __init__(self, partition: Partition, schema: Schema) -> None:
        from pipeline.sources.documents import Documents

        group = schema.read.group_by
        assert group is not None  # noqa: S101
        self._partition, self._one = partition, group.key is None
        self._limit = max(schema.read.limits.record_mb * 2**20, BATCH_BYTES)
        self._documents = Documents(partition, schema, group.order)
        self._last: str | None = None  # key of the last row that has one
        self._tail: list[
            pl.DataFrame
        ] = []  # from an unread row at the end: the key behind it is not known yet
        self._kept: list[pl.DataFrame] = []

    def add(self, batch: Batch, keys: pl.Series, findings: Findings) -> None:
        """Take over rows and what was found on them."""
        import polars as pl

        self._documents.note(batch, findings)
        table = pl.concat([*self._tail, flat_rows(batch, keys)])
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
            raise fault(Reason.FILE_LIMIT, self._partition.source, what, f"{self._limit >> 20} MB")

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
        code = 0 if key is None else hash_of(key)
        return code % self._partition.shares == self._partition.share
