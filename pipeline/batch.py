"""The frame with its places, and the findings made on it. Everything between reading and the shard is a Batch."""

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

    A reader hands the records over in exactly one of three forms: ``cells``, ``raw`` or ``columns``. The cast makes
    ``frame`` of it and leaves the form as it is, so that a record can be set aside as it was read.

    Attributes:
        source: path relative to the raw folder, with forward slashes.
        sheet: sheet name of a workbook, else None.
        ids: int64 [n], ordinal of each record within its partition; findings refer to it.
        rows: int64 [n], physical line of a text file, sheet row of a workbook (1 is the first), element number
            of a JSON array or row of a Parquet file (1 is the first).
        frame: the typed columns, one a field, after the cast; before it, empty.
        cells: the cells (String columns by header, null for a blank cell), from spreadsheets and delimited text; a
            list column by header where each record is a group of rows.
        raw: binary [n], the JSON value as it stands in the file. Beside ``cells``, the bytes of each record that could
            not be read, null for the others.
        unread: bool [n], records that could not be read and have their finding: no later stage makes another on
            them. None when there are none.
        decimal: decimal mark of the cells: ``.``, ``,`` or ``.,`` for either.
        sound: whether its bytes prove that no text of it holds NUL, U+FFFD or anything encoded twice.
        columns: columns in the file's own types by the names that the schema gives them, from Parquet and Arrow.
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
    sound: bool = False
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
        """Index within this batch of each record id (ids are sorted within a batch)."""
        return np.searchsorted(self.ids, ids).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's hits on a batch, in columns.

    Attributes:
        reason, policy: what was found, and what becomes of the records.
        column: field or column it was found in, "" for the whole record.
        ids: int64 [k], the records; an id may stand several times with different paths.
        paths: JSON path or item inside the column, one a hit, or one for all ("" when the column says it all).
        found, expected: in words, one a hit, or one for all. They go to the quarantine shard, never to a log.
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
    """What a stage, or a run of stages, found."""

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
        """Record one rule's hits; nothing is kept when there are none."""
        if len(ids):
            self.items.append(Finding(reason, policy, column, ids, paths, found, expected))

    def extend(self, other: Findings) -> None:
        """Take over what another stage found."""
        self.items.extend(other.items)

    def named(self, names: Mapping[str, str]) -> Findings:
        """The same with other names of columns, where ``names`` has one."""
        return Findings([replace(f, column=names.get(f.column, f.column)) for f in self.items])

    def between(self, first: int, last: int) -> Findings:
        """The hits on records with ids from ``first`` to ``last``, both included."""
        part = Findings()
        for f in self.items:
            keep = (f.ids >= first) & (f.ids <= last)
            paths, found, expected = (_where(values, keep) for values in (f.paths, f.found, f.expected))
            part.add(f.reason, f.policy, f.column, f.ids[keep], paths=paths, found=found, expected=expected)
        return part

    def rejected(self) -> Int64s:
        """Sorted ids of the records that go to the quarantine."""
        hits = [f.ids for f in self.items if f.policy is Policy.QUARANTINE]
        return np.unique(np.concatenate(hits)) if hits else np.empty(0, np.int64)

    def noted(self) -> dict[int, list[str]]:
        """Slugs of repairs and flags by record id, each once, in order of the reasons."""
        notes: dict[int, set[Reason]] = {}
        for item in self.items:
            if item.policy is not Policy.QUARANTINE:
                for record in item.ids.tolist():
                    notes.setdefault(record, set()).add(item.reason)
        order = {reason: i for i, reason in enumerate(Reason)}
        return {k: [r.slug for r in sorted(v, key=order.__getitem__)] for k, v in notes.items()}

    def counts(self) -> Counter[tuple[Reason, Policy]]:
        """Number of records (not hits) by reason and policy; repairs and flags of certified records only."""
        ids: dict[tuple[Reason, Policy], list[Int64s]] = {}
        rejected = self.rejected()
        for item in self.items:
            kept = item.ids if item.policy is Policy.QUARANTINE else item.ids[~np.isin(item.ids, rejected)]
            ids.setdefault((item.reason, item.policy), []).append(kept)
        counted = {key: len(np.unique(np.concatenate(parts))) for key, parts in ids.items()}
        return Counter({key: count for key, count in counted.items() if count})


@dataclass(frozen=True, slots=True)
class Samples:
    """Training samples made from records: what a shard holds.

    Attributes:
        table: columns of the kind's shard schema (``pipeline.shards.schemas``), one row a sample.
        ids: int64 [rows], the record each sample was made from; sorted.
        pages: distinct page images of these samples under the pages schema, or None.
    """

    table: pa.Table
    ids: Int64s
    pages: pa.Table | None = None


class RecordStage(Protocol):
    """A stage over records: cast, judge, bbox, image, chat … It may see records already found bad, with nulls
    where nothing could be read, and must pass them on; it never drops a record."""

    name: str

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]: ...


class EncodeStage(Protocol):
    """The stage that turns good records into samples. A record with a quarantine finding gives no sample."""

    name: str

    def __call__(self, batch: Batch) -> tuple[Samples, Findings]: ...


class SampleStage(Protocol):
    """A stage over samples: certify. A record any of whose samples is bad is rejected whole."""

    name: str

    def __call__(self, samples: Samples) -> tuple[Samples, Findings]: ...


def _where(values: Sequence[str] | str, keep: Mask) -> Sequence[str] | str:
    """The values of the hits kept; one text for all stays as it is."""
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
    """The records without, and with, a quarantine finding."""
    bad = np.isin(batch.ids, findings.rejected(), assume_unique=True)
    return batch.take(~bad), batch.take(bad)


def merge(parts: Iterable[Findings]) -> Findings:
    """All findings of several stages, in their order."""
    whole = Findings()
    for part in parts:
        whole.extend(part)
    return whole
