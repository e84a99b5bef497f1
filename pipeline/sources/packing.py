"""Batches of a good size from many small pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.batch import Batch, Findings, merge
from pipeline.sources.partition import BATCH_BYTES, BATCH_ROWS

if TYPE_CHECKING:
    import pyarrow as pa


def packed(pieces: Iterable[tuple[Batch, Findings, int]]) -> Iterator[tuple[Batch, Findings]]:
    """Join pieces (batch, findings, bytes) until a batch holds ``BATCH_ROWS`` records or ``BATCH_BYTES`` bytes.

    The ids of the pieces count from 0 within each piece; those of the batches over all of them.
    """
    batches: list[Batch] = []
    findings: list[Findings] = []
    rows = size = first = 0
    for batch, found, length in pieces:
        if not len(batch):
            continue
        batches.append(replace(batch, ids=batch.ids + (first + rows)))
        findings.append(_shifted(found, first + rows))
        rows, size = rows + len(batch), size + length
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield joined(batches), merge(findings)
            first, rows, size, batches, findings = first + rows, 0, 0, [], []
    if batches:
        yield joined(batches), merge(findings)


def _shifted(findings: Findings, first: int) -> Findings:
    return Findings([replace(item, ids=item.ids + first) for item in findings.items])


def joined(batches: list[Batch]) -> Batch:
    """Batches of one partition as one; all of them hold ``cells``, or all of them hold ``raw``."""
    import polars as pl

    if len(batches) == 1:
        return batches[0]
    ids = np.concatenate([b.ids for b in batches])
    rows = np.concatenate([b.rows for b in batches])
    sound = all(b.sound for b in batches)
    cells = [b.cells for b in batches if b.cells is not None]
    return replace(
        batches[0],
        ids=ids,
        rows=rows,
        cells=pl.concat(cells) if cells else None,
        raw=_raw(batches),
        unread=_unread(batches),
        sound=sound,
    )


def _raw(batches: list[Batch]) -> pa.Array | None:
    import pyarrow as pa

    if all(b.raw is None for b in batches):
        return None
    return pa.concat_arrays([pa.nulls(len(b), pa.binary()) if b.raw is None else b.raw for b in batches])


def _unread(batches: list[Batch]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    if all(b.unread is None for b in batches):
        return None
    return np.concatenate([np.zeros(len(b), bool) if b.unread is None else b.unread for b in batches])
