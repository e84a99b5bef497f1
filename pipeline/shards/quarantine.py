"""The quarantine shards: each bad record once, as it was read, with all its reasons.

This module works record by record, but on bad records only. It stores whatever a record holds: lone surrogates, NULs,
mixed types, integers of any size, bytes that are not text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.reasons import Policy
from pipeline.shards.files import Part
from pipeline.shards.schemas import quarantine
from pipeline.shards.writer import ShardWriter

if TYPE_CHECKING:
    from pipeline.batch import Batch, Finding, Findings

FOUND_CHARACTERS = 200
"""Longest stored text of ``found`` or ``expected``, in characters."""
HITS = 50
"""Most stored places of one reason in one column of one record; the others are only counted."""

Hit = dict[str, str]


class QuarantineWriter:
    """Writes bad records to the quarantine shards of one schema.

    Args:
        folder: folder of the shards (``quarantine_folder`` below the staging folder).
        shard_rows, batch_rows, fsync: as for ``ShardWriter``.

    Attributes:
        rows: records written so far.
    """

    def __init__(
        self, folder: Path, shard_rows: int = 100_000, batch_rows: int = 1_000, *, fsync: bool = True
    ) -> None:
        self._writer = ShardWriter(folder, quarantine(), shard_rows, batch_rows, fsync=fsync)
        self.rows = 0

    def write(self, batch: Batch, findings: Findings) -> None:
        """Write bad records.

        Args:
            batch: the bad records as they were read: their ``cells``, ``raw`` or ``columns``.
            findings: all findings on these records; findings on other records are ignored.

        Raises:
            ValueError: a record without a reason.
        """
        if not len(batch):
            return
        reasons = _reasons(batch.ids.tolist(), findings.items)
        if missing := sum(not hits for hits in reasons):
            raise ValueError(f"{missing} records set aside without a reason")
        count = len(batch)
        columns = {
            "source": [storable(batch.source)] * count,
            "sheet": [None if batch.sheet is None else storable(batch.sheet)] * count,
            "row": batch.rows,
            "reasons": reasons,
            "cells": list(_cells(batch)),
            "raw": [None] * count if batch.raw is None else batch.raw.cast(pa.binary()),
        }
        schema = quarantine()
        arrays = [pa.array(columns[name], schema.field(name).type) for name in schema.names]
        self._writer.write(pa.Table.from_arrays(arrays, schema=schema))
        self.rows += count

    def close(self) -> tuple[Part, ...]:
        """Finish the last shard and return all shards in order."""
        return self._writer.close()

    def abort(self) -> None:
        """Remove the unfinished shard."""
        self._writer.abort()


def storable(text: str) -> str:
    """The text as Arrow can hold it: a lone surrogate becomes its JSON escape (``\\ud83d``)."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _reasons(ids: Sequence[int], items: Sequence[Finding]) -> list[list[Hit]]:
    """The quarantine reasons of each record, in the order they were found."""
    hits: dict[int, list[Hit]] = {record: [] for record in ids}
    seen: dict[tuple[int, str, str], int] = {}
    for item in items:
        if item.policy is not Policy.QUARANTINE:
            continue
        slug, column = item.reason.slug, storable(item.column)
        for index, record in enumerate(item.ids.tolist()):
            if record not in hits:
                continue
            count = seen[record, slug, column] = seen.get((record, slug, column), 0) + 1
            if count <= HITS:
                found, expected = _text_at(item.found, index), _text_at(item.expected, index)
                path = _text_at(item.paths, index)
                hits[record].append(_hit(slug, column, path, _shorten(found), _shorten(expected)))
    for (record, slug, column), count in seen.items():
        if count > HITS:
            hits[record].append(_hit(slug, column, "", f"{count - HITS} more places", ""))
    return list(hits.values())


def _hit(reason: str, column: str, path: str, found: str, expected: str) -> Hit:
    return {"reason": reason, "column": column, "path": path, "found": found, "expected": expected}


def _text_at(values: Sequence[str] | str, index: int) -> str:
    return storable(values if isinstance(values, str) else values[index])


def _shorten(text: str) -> str:
    return text if len(text) <= FOUND_CHARACTERS else text[: FOUND_CHARACTERS - 1] + "…"


def _cells(batch: Batch) -> Iterator[str | None]:
    """The cells of each record as one JSON object; None where the record is stored as bytes."""
    frame = batch.columns if batch.cells is None else batch.cells
    if frame is None:
        yield from [None] * len(batch)
        return
    if not frame.width:
        yield from ["{}"] * len(batch)
        return
    names = frame.columns
    for row in frame.iter_rows():
        record = dict(zip(names, row, strict=True))
        yield storable(json.dumps(_json_value(record), ensure_ascii=False, separators=(",", ":")))


def _json_value(value: Any) -> Any:
    """The value as JSON can hold it: dates, decimals, bytes, NaN and infinities become text."""
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    if hasattr(value, "to_list"):
        return _json_value(value.to_list())
    return str(value)
