"""Delimited text: one record a row, with every broken row set aside by itself.

Quotes are audited first (``quotes.py``): rows whose quotes are broken never reach the parser, so that none of them
swallows the rows below. Pyarrow parses the others; its invalid rows are those with another number of fields than the
header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.cells.text import is_sound
from pipeline.cells.utf8 import is_utf8
from pipeline.reasons import Reason
from pipeline.sources.blocks import Block, blocks
from pipeline.sources.fault import fault
from pipeline.sources.packing import packed
from pipeline.sources.partition import Inspection, Partition, Reading
from pipeline.sources.pieces import pieces
from pipeline.sources.quotes import CR, LF, Borders, scan

if TYPE_CHECKING:
    import polars as pl
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
        found = blocks(pieces(path, partition), borders, line=partition.first_row, limit=limit)
        return packed(_piece(block, partition, schema, limit, dropped) for block in found)

    return Reading(batches)


def _piece(
    block: Block, partition: Partition, schema: Schema, limit: int, dropped: Counter[str]
) -> tuple[Batch, Findings, int]:
    """One block of records as a batch with ids from 0, what was found on them, and their size in bytes."""
    import polars as pl

    starts = np.concatenate([[0], block.ends[:-1]])
    bad: Bad = {item.index: (item.reason, item.found, "") for item in block.broken}
    if block.oversized:
        bad[0] = (Reason.LINE_TOO_LONG, str(block.oversized), str(limit))
    first = np.frombuffer(block.data, np.uint8)[starts]
    whole = (first != LF) & (first != CR)  # an empty line is no row for the parser either
    whole[list(bad)] = False
    places = np.flatnonzero(whole)
    cells, ragged = _parse(_without(block, starts, bad) if bad else block.data, partition)
    for number, count in ragged:
        place = int(places[number - 1])
        if block.data[starts[place] : block.ends[place]].strip():
            bad[place] = (Reason.ROW_RAGGED, str(count), str(len(partition.header)))
    if ragged:
        places = np.delete(places, [number - 1 for number, _ in ragged])
    if len(places) != cells.height:
        raise RuntimeError(f"{cells.height} rows parsed of {len(places)}")
    cells, places = _without_blanks(cells, places)
    kept = np.union1d(places, np.fromiter(bad, np.int64, len(bad))) if bad else places
    dropped["blank"] += len(starts) - len(kept)
    rows = block.line + block.lines[kept]
    batch = Batch(
        partition.source, None, np.arange(len(rows), dtype=np.int64), rows, pl.DataFrame(), cells,
        decimal=partition.decimal, sound=is_sound(block.data),
    )  # fmt: skip
    if not bad:
        return batch, Findings(), len(block.data)
    unread = ~np.isin(kept, places, assume_unique=True)
    raw = _raw(block, starts, kept, unread)
    batch = replace(batch, cells=_with_unread(cells, unread), raw=raw, unread=unread)
    return batch, _findings(bad, kept, schema), len(block.data)


def _parse(data: bytes, partition: Partition) -> tuple[pl.DataFrame, list[tuple[int, int]]]:
    """The cells of whole rows, and the ragged ones among them: (number from 1, fields)."""
    import polars as pl
    import pyarrow as pa
    from pyarrow import csv

    ragged: list[tuple[int, int]] = []

    def aside(row: csv.InvalidRow) -> str:
        ragged.append((row.number, row.actual_columns))
        return "skip"

    names = list(partition.header)
    if not data.strip(b"\r\n"):
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String)), ragged
    if data.startswith(b"\xef\xbb\xbf"):
        data = b"\n" + data  # a mark inside the text is text: the parser takes it off the front only
    if not is_utf8(data):
        raise fault(Reason.FILE_CHANGED, partition.source, "bytes that were UTF-8 when it was inspected")
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        parse_options=csv.ParseOptions(
            delimiter=partition.delimiter, newlines_in_values=True, invalid_row_handler=aside
        ),
        convert_options=csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    return pl.DataFrame(pl.from_arrow(table)), ragged


def _without(block: Block, starts: Int64s, bad: Bad) -> bytes:
    """The block's bytes without its broken records."""
    parts = []
    at = 0
    for place in sorted(bad):
        parts.append(block.data[at : starts[place]])
        at = int(block.ends[place])
    return b"".join([*parts, block.data[at:]])


def _without_blanks(cells: pl.DataFrame, places: Int64s) -> tuple[pl.DataFrame, Int64s]:
    """The cells without rows that are blank throughout."""
    import polars as pl

    if not all(column.null_count() for column in cells.get_columns()):
        return cells, places
    blank = cells.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    if not blank.any():
        return cells, places
    return cells.filter(pl.Series(~blank)), places[~blank]


def _with_unread(cells: pl.DataFrame, unread: Mask) -> pl.DataFrame:
    """The cells with a row of nulls for each unread record."""
    import polars as pl

    index = pl.Series(np.cumsum(~unread) - 1, dtype=pl.Int64).set(pl.Series(unread), None)
    return cells.select(pl.all().gather(index))


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
