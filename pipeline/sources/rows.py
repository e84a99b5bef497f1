"""Records of one row each as cells, whatever they were read from: what grouping works on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings
from pipeline.cells.decoder import Decoder
from pipeline.cells.hits import Hits
from pipeline.cells.reads import readings
from pipeline.cells.spread import scatter
from pipeline.fields import Field, FieldType, Kind
from pipeline.sources.header import expected

if TYPE_CHECKING:
    import polars as pl

    from pipeline.schema.model import Schema


KEY, ROW, ID, LOST, RAW = "@key", "@row", "@id", "@lost", "@raw"
HELPERS = (KEY, ROW, ID, LOST, RAW, "@order", "@group")
"""Columns that stand beside the cells while rows are grouped: group key, physical row, ordinal, whether the row could
not be read, and its bytes then."""


def flat_rows(batch: Batch, keys: pl.Series) -> pl.DataFrame:
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


def as_cells(batch: Batch, schema: Schema, fields: Sequence[Field]) -> tuple[Batch, Findings]:
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
        [*expected(fields), *(n for n in (group and group.key, group and group.order) if n)]
    )
    values = [Field(name, name, FieldType(Kind.JSON), required=False) for name in names]
    hits = Hits(schema.policy)
    lost = np.zeros(len(batch), bool) if batch.unread is None else batch.unread
    decoder = Decoder(readings(values), schema.policy, schema.read.limits.depth)
    decoded = decoder(batch.raw.filter(pa.array(~lost)), batch.ids[~lost], hits)
    columns = [
        scatter(pl.Series(name, [_cell(v) for v in column.to_list()], pl.String), ~lost).alias(name)
        for name, column in zip(names, decoded, strict=True)
    ]
    findings = hits.findings()
    unread = lost | np.isin(batch.ids, findings.rejected())
    raw = pa.array(
        [value if bad else None for value, bad in zip(batch.raw.to_pylist(), unread, strict=True)],
        pa.binary(),
    )
    return replace(batch, cells=pl.DataFrame(columns), raw=raw, unread=unread), findings


def _cell(text: str | None) -> str | None:
    """A JSON value as a cell would show it."""
    return json.loads(text) if text is not None and text.startswith('"') else text
