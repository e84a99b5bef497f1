"""Batches of records, findings on them, and samples: what the stages take and return.

Everything between reading and the shard is a ``Batch``: consecutive records of one source with their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from pipeline.reasons import Policy, Reason

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records of one source.

    A reader delivers records in exactly one of three forms: ``cells``, ``raw`` or ``columns``. The cast stage makes
    ``frame`` from it and keeps the form, so that the quarantine receives a record as it was read.

    Attributes:
        source: path relative to the raw folder, with forward slashes.
        sheet: sheet name of a workbook, else None.
        ids: int64 [n], ordinal of each record within its partition; findings refer to records by it.
        rows: int64 [n], physical line of a text file, sheet row of a workbook (1 is the first), element number
            of a JSON array or row of a Parquet file (1 is the first).
        frame: the typed columns, one a field; empty before the cast.
        cells: the cells (String columns by header, null for a blank cell), from spreadsheets and delimited text; a
            list column by header where each record is a group of rows.
        raw: binary [n], the JSON value as in the file. Beside ``cells``: the bytes of unread records, null for others.
        unread: bool [n], records that could not be read and have a finding: no later stage adds another one. None if
            all records are read.
        decimal: decimal mark of the cells: ``.``, ``,`` or ``.,`` for either.
        clean: whether the bytes prove that no text holds NUL, U+FFFD or doubly encoded characters.
        columns: columns of Parquet and Arrow files in the types of the file, under the names of the schema.
    """

    source: str
    sheet: str | None
    ids: Int64s
    rows: Int64s
    frame: pl.DataFrame
    cells: pl.DataFrame | None = None
    raw: pa.Array | None = None
    unread: Mask | None = None
    decimal: str = "."
    clean: bool = False
    columns: pl.DataFrame | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, keep: Mask) -> Batch:
        """The records where ``keep`` (bool [n]) is true, in order."""
        import polars as pl
        import pyarrow as pa

        if keep.all():
            return self
        mask = pl.Series(keep)
        return replace(
            self,
            ids=self.ids[keep],
            rows=self.rows[keep],
            frame=self.frame.filter(mask) if self.frame.width else self.frame,
            cells=None if self.cells is None else self.cells.filter(mask),
            raw=None if self.raw is None else self.raw.filter(pa.array(keep)),
            unread=None if self.unread is None else self.unread[keep],
            columns=None if self.columns is None else self.columns.filter(mask),
        )

    def with_frame(self, frame: pl.DataFrame) -> Batch:
        """The same records with other typed columns."""
        return replace(self, frame=frame)

    def position(self, ids: Int64s) -> Int64s:
        """Index of each record id within this batch (ids are sorted): int64."""
        return np.searchsorted(self.ids, ids).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule found in a batch, in columns.

    Attributes:
        reason, policy: what is wrong, and what happens to the records.
        column: field or column of the finding, "" for the whole record.
        ids: int64 [k], the records; an id may occur several times with different paths.
        paths: JSON path or item inside the column, one an id or one for all ("" for the whole column).
        found, expected: in words, one an id or one for all. They go to the quarantine shard, never to a log.
    """

    reason: Reason
    policy: Policy
    column: str
    ids: Int64s
    paths: Sequence[str] | str = ""
    found: Sequence[str] | str = ""
    expected: Sequence[str] | str = ""

    def __post_init__(self) -> None:
        for values in (self.paths, self.found, self.expected):
            if not isinstance(values, str) and len(values) != len(self.ids):
                raise ValueError(f"{self.reason.slug}: {len(values)} values for {len(self.ids)} records")


@dataclass(slots=True)
class Findings:
    """The findings of one stage or of several."""

    items: list[Finding] = field(default_factory=list)

    def add(
        self,
        reason: Reason,
        policy: Policy,
        column: str,
        ids: Int64s,
        *,
        paths: Sequence[str] | str = "",
        found: Sequence[str] | str = "",
        expected: Sequence[str] | str = "",
    ) -> None:
        """Add what one rule found, unless that is nothing."""
        if len(ids):
            self.items.append(Finding(reason, policy, column, ids, paths, found, expected))

    def extend(self, other: Findings) -> None:
        """Add the findings of another stage."""
        self.items.extend(other.items)

    def rename_columns(self, names: Mapping[str, str]) -> Findings:
        """The same findings, with columns renamed by ``names``."""
        return Findings([replace(f, column=names.get(f.column, f.column)) for f in self.items])

    def between(self, first: int, last: int) -> Findings:
        """The findings on records with ids from ``first`` to ``last``, both included."""
        selected = Findings()
        for f in self.items:
            keep = (f.ids >= first) & (f.ids <= last)
            paths, found, expected = (_where(values, keep) for values in (f.paths, f.found, f.expected))
            selected.add(
                f.reason, f.policy, f.column, f.ids[keep], paths=paths, found=found, expected=expected
            )
        return selected

    def rejected(self) -> Int64s:
        """Sorted ids of the records that go to quarantine: int64."""
        rejected = [f.ids for f in self.items if f.policy is Policy.QUARANTINE]
        return np.unique(np.concatenate(rejected)) if rejected else np.empty(0, np.int64)

    def noted(self) -> dict[int, list[str]]:
        """Slugs of the repairs and flags of each record id, each once, in the order of the reasons."""
        notes: dict[int, set[Reason]] = {}
        for item in self.items:
            if item.policy is not Policy.QUARANTINE:
                for record in item.ids.tolist():
                    notes.setdefault(record, set()).add(item.reason)
        order = {reason: i for i, reason in enumerate(Reason)}
        return {k: [r.slug for r in sorted(v, key=order.__getitem__)] for k, v in notes.items()}

    def counts(self) -> Counter[tuple[Reason, Policy]]:
        """Number of records by reason and policy; repairs and flags count on certified records only."""
        ids: dict[tuple[Reason, Policy], list[Int64s]] = {}
        rejected = self.rejected()
        for item in self.items:
            kept = item.ids if item.policy is Policy.QUARANTINE else item.ids[~np.isin(item.ids, rejected)]
            ids.setdefault((item.reason, item.policy), []).append(kept)
        counted = {key: len(np.unique(np.concatenate(parts))) for key, parts in ids.items()}
        return Counter({key: count for key, count in counted.items() if count})


@dataclass(frozen=True, slots=True)
class Samples:
    """Training samples made from records: the content of a shard.

    Attributes:
        table: columns of the kind's shard schema (``pipeline.shards.schemas``), one row a sample.
        ids: int64 [rows], the record that each sample comes from; sorted.
        pages: distinct page images of these samples under the pages schema, or None.
    """

    table: pa.Table
    ids: Int64s
    pages: pa.Table | None = None


class RecordStage(Protocol):
    """A stage over records, such as cast, rules or boxes.

    It also receives rejected records, with nulls where nothing could be read, and passes them on: it never drops a
    record.
    """

    name: str

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]: ...


class EncodeStage(Protocol):
    """The stage that makes samples from records. A rejected record gives no sample."""

    name: str

    def __call__(self, batch: Batch) -> tuple[Samples, Findings]: ...


def _where(values: Sequence[str] | str, keep: Mask) -> Sequence[str] | str:
    """The values where ``keep`` is true; one text for all stays as it is."""
    return (
        values
        if isinstance(values, str)
        else [v for v, kept in zip(values, keep.tolist(), strict=True) if kept]
    )


def pieces(batch: Batch, findings: Findings, rows: int) -> Iterator[tuple[Batch, Findings]]:
    """The batch in consecutive pieces of at most ``rows`` records, each with the findings on its records."""
    if len(batch) <= rows:
        yield batch, findings
        return
    for start in range(0, len(batch), rows):
        keep = np.zeros(len(batch), np.bool_)
        keep[start : start + rows] = True
        piece = batch.take(keep)
        yield piece, findings.between(int(piece.ids[0]), int(piece.ids[-1]))


def split(batch: Batch, findings: Findings) -> tuple[Batch, Batch]:
    """The records without a quarantine finding, and those with one."""
    bad = np.isin(batch.ids, findings.rejected(), assume_unique=True)
    return batch.take(~bad), batch.take(bad)


def merge(parts: Iterable[Findings]) -> Findings:
    """The findings of several stages, in their order."""
    merged = Findings()
    for part in parts:
        merged.extend(part)
    return merged
