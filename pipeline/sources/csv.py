"""Delimited text: one record a row, by pyarrow's parser, with every broken row set aside by itself.

Quotes are audited first (``quotes.py``): rows whose quotes are broken never reach the parser, so that none of them
swallows the rows below. Rows with another number of fields than the header are the parser's invalid rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.reasons import Reason
from pipeline.sources.blocks import Block, blocks
from pipeline.sources.encoding import text
from pipeline.sources.packing import packed
from pipeline.sources.partition import Inspection, Partition, Reading
from pipeline.sources.quotes import CR, LF, Borders, scan

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.fields import Field
    from pipeline.schema.model import Schema
    from pipeline.sources.discover import Claim

Bad = dict[int, tuple[Reason, str, str]]
"""Unread records of a block: place → reason, found, expected."""


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove encoding, delimiter and header, and cut a large file into ranges of whole records."""
    from pipeline.sources import dialect

    return dialect.inspect(claim, schema, fields)


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of cells: String columns by header, null for a blank cell, null throughout for an unread row."""
    limit = schema.read.limits.record_mb * 2**20
    delimiter = ord(partition.delimiter)

    def borders(data: bytes, final: bool) -> Borders:
        return scan(data, delimiter, final=final, limit=limit)

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        found = blocks(text(path, partition), borders, line=partition.first_row, limit=limit)
        return packed(_piece(block, partition, schema, limit, dropped) for block in found)

    return Reading(batches)


def _piece(
    block: Block, partition: Partition, schema: Schema, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    """One block of records as a batch with ids from 0."""
    import polars as pl

    starts = np.concatenate([[0], block.ends[:-1]])
    bad: Bad = {item.index: (item.reason, item.found, "") for item in block.broken}
    if block.oversized:
        bad[0] = (Reason.LINE_TOO_LONG, str(block.oversized), str(limit))
    first = np.frombuffer(block.data, np.uint8)[starts]
    whole = (first != LF) & (first != CR)  # an empty line is no row for the parser either
    whole[list(bad)] = False
    places = np.flatnonzero(whole)
    table, ragged = _parse(_without(block, starts, bad) if bad else block.data, partition)
    for number, count in ragged:
        place = int(places[number - 1])
        if block.data[starts[place] : block.ends[place]].strip():
            bad[place] = (Reason.ROW_RAGGED, str(count), str(len(partition.header)))
    if ragged:
        places = np.delete(places, [number - 1 for number, _ in ragged])
    if len(places) != table.num_rows:
        raise RuntimeError(f"{table.num_rows} rows parsed of {len(places)}")
    table, places = _without_blanks(table, places)
    kept = np.union1d(places, np.fromiter(bad, np.int64, len(bad))) if bad else places
    dropped["blank"] += len(starts) - len(kept)
    rows = (block.line + np.searchsorted(block.breaks, starts[kept], "right")).astype(np.int64)
    ids = np.arange(len(kept), dtype=np.int64)
    raw = unread = None
    if bad:
        unread = ~np.isin(kept, places, assume_unique=True)
        table = _spread(table, unread)
        raw = _raw(block, starts, kept, unread)
    cells = pl.DataFrame(pl.from_arrow(table, rechunk=False))
    batch = Batch(
        partition.source, None, ids, rows, pl.DataFrame(), cells, raw, unread, partition.decimal
    )  # fmt: skip
    return batch, _findings(bad, kept, schema), len(block.data)


def _parse(data: bytes, partition: Partition) -> tuple[pa.Table, list[tuple[int, int]]]:
    """The cells of whole rows, and the ragged ones among them: (number from 1, fields)."""
    import pyarrow as pa
    from pyarrow import csv

    ragged: list[tuple[int, int]] = []

    def aside(row: csv.InvalidRow) -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    names = partition.header
    if not data:
        return pa.table({name: pa.array([], pa.string()) for name in names}), ragged
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(names)),
        parse_options=csv.ParseOptions(
            delimiter=partition.delimiter, newlines_in_values=True, invalid_row_handler=aside
        ),
        convert_options=csv.ConvertOptions(
            check_utf8=False,  # inspection has proven the encoding
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    return table, ragged


def _without(block: Block, starts: Int64s, bad: Bad) -> bytes:
    """The block's bytes without its broken records."""
    parts = []
    at = 0
    for place in sorted(bad):
        parts.append(block.data[at : starts[place]])
        at = int(block.ends[place])
    return b"".join([*parts, block.data[at:]])


def _without_blanks(table: pa.Table, places: Int64s) -> tuple[pa.Table, Int64s]:
    """The table without rows whose cells are all blank."""
    if not table.num_columns or not all(column.null_count for column in table.columns):
        return table, places
    filled = np.zeros(table.num_rows, bool)
    for column in table.columns:
        filled |= column.is_valid().to_numpy()
    if filled.all():
        return table, places
    return table.filter(filled), places[filled]


def _spread(table: pa.Table, unread: Mask) -> pa.Table:
    """The table with a row of nulls for each unread record."""
    import pyarrow as pa

    index = np.cumsum(~unread) - 1
    return table.take(pa.array(index, mask=unread))


def _raw(block: Block, starts: Int64s, kept: Int64s, unread: Mask) -> pa.Array:
    import pyarrow as pa

    spans = zip(starts[kept].tolist(), block.ends[kept].tolist(), unread.tolist(), strict=True)
    raw = [block.data[start:end].rstrip(b"\r\n") if lost else None for start, end, lost in spans]
    return pa.array(raw, pa.binary())


def _findings(bad: Bad, kept: Int64s, schema: Schema) -> Findings:
    findings = Findings()
    for reason in dict.fromkeys(item[0] for item in bad.values()):
        places = sorted(place for place, item in bad.items() if item[0] is reason)
        findings.add(
            reason,
            schema.policy(reason),
            "",
            np.searchsorted(kept, places).astype(np.int64),
            found=[bad[place][1] for place in places],
            expected=[bad[place][2] for place in places],
        )
    return findings
