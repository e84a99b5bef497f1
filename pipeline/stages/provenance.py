"""The columns that lead a sample back to its file, sheet and row."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.batch import Batch, Findings, Int64s, Samples

if TYPE_CHECKING:
    import polars as pl


def provenance(
    batch: Batch, records: Int64s, notes: Findings, windows: Int64s | None = None
) -> dict[str, pa.Array]:
    """``sample_id, source, sheet, row, notes`` of each sample.

    Args:
        batch: the records.
        records: int64 [samples], position within ``batch`` of the record each sample was made from.
        notes: findings whose repairs and flags are written to ``notes``.
        windows: int64 [samples], number of the window within its record; adds ``#w<k>`` to the id.
    """
    n = len(records)
    rows = pa.array(batch.rows[records], pa.int64())
    prefix = batch.source if batch.sheet is None else f"{batch.source}#{batch.sheet}"
    ids = _join(pa.repeat(pa.scalar(prefix), n), "#", rows.cast(pa.string()))
    if windows is not None:
        ids = _join(ids, "#w", pa.array(windows, pa.int64()).cast(pa.string()))
    noted = notes.noted()
    written = [noted.get(int(record), []) for record in batch.ids] if noted else []
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(n + 1, np.int32)), pa.array([], pa.string()))
    return {
        "sample_id": ids,
        "source": pa.repeat(pa.scalar(batch.source), n),
        "sheet": pa.repeat(pa.scalar(batch.sheet, pa.string()), n),
        "row": rows,
        "notes": pa.array([written[i] for i in records.tolist()], pa.list_(pa.string())) if noted else empty,
    }


def with_notes(samples: Samples, findings: Findings) -> Samples:
    """The samples with all repairs and flags of their records in ``notes``, those of earlier stages, too."""
    noted = findings.noted()
    if not noted:
        return samples
    place = samples.table.schema.get_field_index("notes")
    written = pa.array([noted.get(record, []) for record in samples.ids.tolist()], pa.list_(pa.string()))
    table = samples.table.set_column(place, samples.table.schema.field(place), written)
    return replace(samples, table=table)


def carried(batch: Batch, records: Int64s, columns: list[pa.Field]) -> dict[str, pa.Array]:
    """The schema's own columns, one value a sample, in their Arrow types."""
    import polars as pl

    if not columns:
        return {}
    frame: pl.DataFrame = batch.frame.select(field.name for field in columns)[pl.Series(records)]
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return {field.name: table.column(field.name).combine_chunks().cast(field.type) for field in columns}


def _join(left: pa.Array, between: str, right: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(left, right, between)
