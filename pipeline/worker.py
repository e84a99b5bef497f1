"""Process one partition, from its bytes to its shards.

The shards and the receipt depend on the task alone, so every engine, order and repetition gives the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrow_lists import Int64s
from pipeline.batch import Batch, Findings, Samples, pieces, split
from pipeline.certificate.receipt import Receipt, Repeat, histogram, total_histogram
from pipeline.findings import FileFault, FileNote
from pipeline.plan import dataset_names, pages_name, stamp
from pipeline.readers.formats import Partition, Reading, load_reader
from pipeline.reasons import Policy, Reason
from pipeline.schema.load import LoadedSchema
from pipeline.schema.model import Split, schema_from_json
from pipeline.shards.files import data_folder, quarantine_folder
from pipeline.shards.quarantine import QuarantineWriter
from pipeline.shards.writer import ShardWriter
from pipeline.stages.build import Stages, build_stages
from pipeline.stages.certify import without
from pipeline.stages.sample_columns import assign_splits, with_content_id, with_notes

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.schema.model import Schema


def read_partition(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Read a partition of the file at ``path``.

    Yields ``(Batch, Findings)``; ids of records count from 0 over the partition. A bad record stays in its batch and
    has a finding. Raises ``FileFault``, at once or during the iteration, when the file itself cannot be read.
    """
    rows = load_reader(partition.format, partition.source).read(partition, path, schema, fields)
    if schema.read.group_by is None:
        return rows
    from pipeline.readers.grouped_rows import group_rows

    return group_rows(rows, partition, schema, fields)


PAGES_AT_ONCE = 256
"""Number of records whose page images are in memory at the same time: 150 kB of pixels per page."""


@dataclass(frozen=True, slots=True)
class Task:
    """Everything that a worker needs for one partition, as plain data that pickles."""

    partition: Partition
    schema_json: str
    schema_path: str
    raw: str
    staging: str
    memo: str
    sha256: str
    stamp: tuple[int, int, int]
    fsync: bool = True
    repeats: tuple[Repeat, ...] = ()
    """Records that the second pass removes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The number of rows, quarantined records and tokens of one batch, for the progress display."""

    rows: int
    quarantined: int
    tokens: int


OnProgress = Callable[[Progress], None]


def process_partition(task: Task, watch: OnProgress | None = None) -> Receipt | FileNote:
    """Read, judge, encode and write one partition.

    Returns:
        The receipt; or a note on the fault when the file itself cannot be read. No receipt then names its shards.
    """
    line = _stages(task.schema_json, task.schema_path, task.raw)
    line.start()
    if line.context.tokenizer is not None:
        line.context.tokenizer.expect(task.stamp[0])
    path = Path(task.raw) / task.partition.source
    accounts = _Accounts(task, line)
    try:
        reading = read_partition(task.partition, path, line.context.schema, line.context.fields)
        for whole, said in reading:
            for batch, found in pieces(whole, said, PAGES_AT_ONCE if line.pages is not None else len(whole)):
                accounts.add(*_run_stages(line, batch, found, task), watch)
        if stamp(path) != task.stamp:
            raise FileFault(FileNote(Reason.FILE_CHANGED, task.partition.source, "size or time differ"))
    except FileFault as fault:
        accounts.abort()
        return fault.note
    except OSError as error:
        accounts.abort()
        return FileNote(Reason.FILE_UNREADABLE, task.partition.source, error.strerror or "an error", "a file")
    except BaseException:
        accounts.abort()
        raise
    return accounts.receipt(reading)


def _run_stages(
    line: Stages, batch: Batch, findings: Findings, task: Task
) -> tuple[Batch, Batch, Samples, Findings]:
    """Run all stages on one batch: (all records, bad records, certified samples, all findings)."""
    for stage in line.records:
        batch, found = stage(batch)
        findings.extend(found)
    _add_repeats(batch, findings, task)
    good, bad = split(batch, findings)
    if not len(good):
        return batch, bad, Samples(line.shard.empty_table(), np.empty(0, np.int64)), findings
    line.judge.assert_clean(good.frame)
    samples, found = line.encode(good)
    findings.extend(found)
    samples, found = line.certify(without(samples, found))
    findings.extend(found)
    samples = with_notes(without(samples, found), findings)
    _check_none_lost(good, samples, findings)
    samples = with_content_id(samples, [field.name for field in line.context.columns])
    _, bad = split(batch, findings)
    return batch, bad, samples, findings


def _check_none_lost(good: Batch, samples: Samples, findings: Findings) -> None:
    """Check that every good record gives a sample or has a finding; raises ``LostRecord``."""
    kept = np.isin(good.ids, samples.ids) | np.isin(good.ids, findings.rejected())
    if not kept.all():
        rows = good.rows[~kept][:5].tolist()
        raise LostRecord(f"{good.source}: rows {rows} gave neither a sample nor a finding")


def _add_repeats(batch: Batch, findings: Findings, task: Task) -> None:
    """Add the findings of the second pass on records of this batch."""
    for repeat in task.repeats:
        findings.add(
            Reason.of(repeat.reason),
            Policy.QUARANTINE,
            "",
            batch.ids[batch.rows == repeat.row],
            found=repeat.first,
        )


class LostRecord(RuntimeError):
    """A fault of this program: the counts of a partition would not add up."""


class _Accounts:
    """The shard writers and the counts of one partition."""

    def __init__(self, task: Task, line: Stages) -> None:
        self._task, self._line = task, line
        self._schema = line.context.schema
        staging, output = Path(task.staging), self._schema.output
        self._quarantine = QuarantineWriter(staging / quarantine_folder(self._schema.name), fsync=task.fsync)
        self._writers = {
            name: ShardWriter(
                staging / data_folder(name),
                line.shard,
                output.shard_rows,
                output.batch_rows,
                shard_bytes=output.shard_bytes,
                fsync=task.fsync,
            )
            for name in dataset_names(self._schema).values()
        }
        self._pages: ShardWriter | None = None
        self._seen_pages: set[str] = set()
        if line.pages is not None:
            name = pages_name(self._schema)
            self._pages = ShardWriter(staging / data_folder(name), line.pages, 4_000, 50, fsync=task.fsync)
            self._writers[name] = self._pages
        self._names = {field.name: field.shown for field in line.context.fields}
        self._read = self._bad = 0
        self._counts: dict[Policy, Counter[str]] = {policy: Counter() for policy in Policy}
        self._lengths: dict[str, dict[str, int]] = {}

    def add(
        self, whole: Batch, bad: Batch, samples: Samples, findings: Findings, watch: OnProgress | None
    ) -> None:
        """Write one batch and count it."""
        self._read += len(whole)
        self._bad += len(bad)
        self._quarantine.write(bad, findings.rename_columns(self._names))
        for (reason, policy), count in findings.counts().items():
            self._counts[policy][reason.slug] += count
        for name, part, lengths in self._by_split(whole, samples):
            self._writers[name].write(part.table)
            self._lengths[name] = total_histogram([self._lengths.get(name, {}), histogram(lengths)])
        self._write_pages(samples)
        if watch is not None:
            tokens = int(_lengths(samples).sum())
            watch(Progress(len(whole), len(bad), tokens))

    def _by_split(self, whole: Batch, samples: Samples) -> list[tuple[str, Samples, Int64s]]:
        names = dataset_names(self._schema)
        rule = self._schema.split
        if rule is None:
            samples = self._line.finish(samples)
            return [(names[""], samples, _lengths(samples))]
        keys = split_keys(whole, samples, rule)
        assigned = assign_splits(keys, rule)
        parts = []
        for name in names:
            keep = assigned == name
            part = self._line.finish(Samples(samples.table.filter(keep), samples.ids[keep]))
            parts.append((names[name], part, _lengths(part)))
        return parts

    def _write_pages(self, samples: Samples) -> None:
        if self._pages is None or samples.pages is None:
            return
        fresh: dict[str, int] = {}
        for place, page in enumerate(samples.pages["page_id"].to_pylist()):
            if page not in self._seen_pages:
                fresh.setdefault(page, place)
        self._seen_pages.update(fresh)
        self._pages.write(samples.pages.take(pa.array(fresh.values(), pa.int64())))

    def abort(self) -> None:
        """Remove the unfinished shards."""
        for writer in self._writers.values():
            writer.abort()
        self._quarantine.abort()

    def receipt(self, reading: Reading) -> Receipt:
        """Close the shards and return the receipt."""
        # Readers differ in whether they name a count of zero, so zeros are left out.
        task = self._task
        dropped = {name: count for name, count in sorted(reading.dropped.items()) if count}
        parts = {name: writer.close() for name, writer in self._writers.items()}
        return Receipt(
            memo=task.memo,
            contract=self._schema.name,
            source=task.partition.source,
            sha256=task.sha256,
            bytes=task.stamp[0],
            sheet=task.partition.sheet,
            chunk=task.partition.order,
            rows_read=self._read + sum(dropped.values()),
            certified=self._read - self._bad,
            quarantined=self._bad,
            dropped=dropped,
            reasons=dict(sorted(self._counts[Policy.QUARANTINE].items())),
            repairs=dict(sorted(self._counts[Policy.REPAIR].items())),
            flags=dict(sorted(self._counts[Policy.FLAG].items())),
            parts={name: made for name, made in parts.items() if made},
            quarantine=self._quarantine.close(),
            lengths=self._lengths,
            refers=dict(sorted(self._line.refers.items())),
            repeats=task.repeats,
        )


def split_keys(whole: Batch, samples: Samples, rule: Split) -> list[str]:
    """The split key of each sample: the value of a column, or the tokens of the record."""
    if rule.key == "content":
        return [str(ids) for ids in samples.table["input_ids"].to_pylist()]
    column = whole.frame[rule.key].cast(str).to_list()
    return [column[i] or "" for i in whole.position(samples.ids).tolist()]


def _lengths(samples: Samples) -> Int64s:
    """Number of tokens of each sample, int64 [samples]; empty for a table without tokens."""
    if "input_ids" not in samples.table.column_names:
        return np.empty(0, np.int64)
    lengths: Int64s = pc.list_value_length(samples.table["input_ids"]).to_numpy().astype(np.int64)
    return lengths


def forget() -> None:
    """Drop the built stages, because a tokenizer or model file may have changed."""
    _stages.cache_clear()


@lru_cache(maxsize=16)
def _stages(schema_json: str, schema_path: str, raw: str) -> Stages:
    """The stages of a schema, built once per process."""
    return build_stages(LoadedSchema(schema_from_json(schema_json), Path(schema_path)), Path(raw))
