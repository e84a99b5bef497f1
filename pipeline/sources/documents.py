"""Rows with their group keys become records: one a group, in the order of their first rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, Int64s
from pipeline.cells import grammar
from pipeline.cells.groups import ROWS
from pipeline.cells.hits import Hits
from pipeline.fields import Kind
from pipeline.reasons import Reason
from pipeline.sources.partition import Partition
from pipeline.sources.rows import HELPERS, ID, KEY, LOST, RAW, ROW

if TYPE_CHECKING:
    import polars as pl

    from pipeline.schema.model import Schema

ROWS_AT_ONCE = 100_000
"""A batch of documents ends behind the group that reaches so many rows."""

Hit = tuple[Reason, str, str, str, str]


class Documents:
    """Makes batches of documents.

    Args:
        order: column of whole numbers that orders the rows of a group.
    """

    def __init__(self, partition: Partition, schema: Schema, order: str | None) -> None:
        self._partition, self._schema, self._order = partition, schema, order
        self._found: dict[int, list[Hit]] = {}
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
            order = pl.lit(grammar.parse(table.get_column(self._order), Kind.INTEGER).values)
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
        for name in [ROWS, *(n for n in table.columns if n not in HELPERS)]:
            values = read[ROW if name == ROWS else name].to_arrow(compat_level=pl.CompatLevel.oldest())
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
        hits = Hits(self._schema.policy)
        places = ids[owner].tolist()
        for record, row, number in zip(places, table[ID].to_list(), table[ROW].to_list(), strict=True):
            for reason, column, path, found, expected in self._found.get(row, ()) if self._found else ():
                hits.add(reason, column, record, f"row {number} {path}".rstrip(), found, expected)
        key = self._schema.read.group_by.key if self._schema.read.group_by else None
        nameless = (table[KEY].is_null() & ~table[LOST]).to_numpy()
        for i in np.flatnonzero(nameless).tolist():
            hits.add(
                Reason.GROUP_KEY_MISSING, key or "", places[i], f"row {table[ROW][i]}", "blank", repr(key)
            )
        if self._order is not None:
            self._unordered(table, places, hits)
        return hits.findings()

    def _unordered(self, table: pl.DataFrame, places: list[int], hits: Hits) -> None:
        """Rows without a place in their group, and places that two rows claim."""
        numbers = table["@order"].to_list()
        last: tuple[int, int | None] | None = None
        for i, (record, number, lost) in enumerate(zip(places, numbers, table[LOST].to_list(), strict=True)):
            path = f"row {table[ROW][i]}"
            if lost:
                continue
            if number is None:
                hits.add(Reason.VALUE_TYPE, self._order or "", record, path, "no whole number", "an integer")
            elif last == (record, number):
                hits.add(Reason.GROUP_INCONSISTENT, self._order or "", record, path, f"{number} twice")
            last = (record, number)
