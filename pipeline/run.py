"""The whole job: plan, partitions, duplicates, publish, summary."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from pipeline import rerun
from pipeline.certificate.cache import HashCache
from pipeline.certificate.receipt import Receipt, Repeat
from pipeline.duplicates import KeyCache, NoteTask, find_repeats, notes_digest, write_notes
from pipeline.engine.base import Engine, ignore
from pipeline.errors import GateError, InputError, SchemaError
from pipeline.findings import FileNote
from pipeline.plan import Input, Known, Plan, check_raw, make_plan, partitions_of
from pipeline.publish import CleanFolder
from pipeline.readers.formats import Partition
from pipeline.reasons import Policy, Reason
from pipeline.report.events import Options, Summary, Watch
from pipeline.rerun import keep_record
from pipeline.schema.load import LoadedSchema, load_schemas
from pipeline.shards.files import QUARANTINE
from pipeline.worker import Task, forget, process_partition

MOST_FILES = 5
"""Largest number of files named in one message."""

_NO_RECORD = (Reason.FILE_EMPTY, Reason.SHEET_UNREAD, Reason.SHEET_HIDDEN)
"""Reasons why a readable file has no record."""


@contextmanager
def naming_files(notes: Sequence[FileNote], *, read: bool) -> Iterator[None]:
    """Add the faults of files to a ``GateError``, which itself names records only.

    Args:
        notes: the notes on files.
        read: whether any record was read; if not, the error also names the files without a record.
    """
    try:
        yield
    except GateError as error:
        named = [
            n
            for n in notes
            if n.reason.facts.default is Policy.ERROR or (not read and n.reason in _NO_RECORD)
        ]
        if not named:
            raise
        lines = [str(note) for note in named[:MOST_FILES]]
        more = len(named) - len(lines)
        if more:
            lines.append(f"and {more} more")
        raise GateError(
            error.what,
            where=error.where,
            found="\n    ".join([error.found, *lines]),
            expected=error.expected,
            remedy=error.remedy,
        ) from error


def run(options: Options, watch: Watch) -> Summary:
    """Do the whole job.

    Raises:
        CleanroomError: of the kind of the fault, with its exit code; nothing is published.
    """
    clock = _Clock()
    forget()
    program, states = rerun.program_fingerprint(options), rerun.file_states(options.schemas)
    schemas = _with_budget(load_schemas(list(options.schemas)), options.max_quarantine)
    named = rerun.files_of_schemas(schemas)
    states = {**rerun.file_states(named), **states} if named is not None else {}
    states = states if rerun.are_settled(states) else {}
    _check_folders(options.raw, options.clean)
    check_raw(options.raw)
    with ExitStack() as stack:
        folder = _Folder(options, stack)
        plan = make_plan(options.raw, schemas, folder.known, folder.cache)
        clock.lap("plan")
        reused, tasks = _tasks(plan, folder, options)
        watch.planned(plan, len(tasks))
        results = _engine(options.engine)(
            tasks, _worker(watch, options, len(tasks)), options.workers, watch.partition
        )
        clock.lap("partitions")
        receipts, faults = _complete_files(reused, results)
        receipts, repeated, more = _second_pass(plan, folder, options, receipts, watch)
        clock.lap("second pass")
        faults = (*faults, *more)
        _refuse_unreadable((*plan.faults, *faults), receipts)
        plan = replace(plan, notes=(*plan.notes, *_notes_on_empty_files(plan.notes, receipts)))
        with naming_files((*plan.notes, *plan.faults, *faults), read=any(r.rows_read for r in receipts)):
            outcome = folder.clean.publish(plan.certificate_inputs(faults, repeated), receipts, options.keys)
        clock.lap("commit")
        sources = {receipt.source for receipt in reused}
        summary = Summary(outcome, plan.notes, (*plan.faults, *faults), len(sources), clock.laps)
        keep_record(options, program, states, plan, summary)
    return summary


class _Folder:
    """The locked output folder, with the receipts and notes of the previous run."""

    def __init__(self, options: Options, stack: ExitStack) -> None:
        self.clean = stack.enter_context(CleanFolder(options.clean, fsync=options.fsync, force=options.force))
        self.cache = HashCache(options.raw, force=options.force)
        before = self.clean.previous
        self._several = before is not None and len(before.predicate["contracts"]) > 1
        self._notes: dict[str, list[FileNote]] = {}
        for slug, source, found, expected in before.predicate["notes"] if before is not None else ():
            self._notes.setdefault(source, []).append(FileNote(Reason.of(slug), source, found, expected))
        self.known: Known = self._known

    def locate(self, name: str) -> Path:
        """The path of a shard: in the staging folder of this run, or published by a previous one."""
        staged = self.clean.staging / name
        return staged if staged.exists() else self.clean.path / name

    def find(self, memo: str) -> tuple[Receipt, ...] | None:
        """The receipts of an unchanged source; None where it, or a file that its records refer to, changed."""
        receipts = self.clean.find(memo)
        if receipts is None:
            return None
        refers = {name: digest for receipt in receipts for name, digest in receipt.refers.items()}
        return receipts if self.cache.have(refers) else None

    def _known(self, memo: str, source: str) -> tuple[FileNote, ...] | None:
        notes = tuple(self._notes.get(source, ()))
        # A note does not name its schema. With several schemas, the file is inspected again.
        return notes if self.find(memo) is not None and not (notes and self._several) else None


class _Clock:
    """Wall-clock seconds of each step, for the run record; the certificate holds no times."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = now - self._last
        self._last = now


def _tasks(plan: Plan, folder: _Folder, options: Options) -> tuple[list[Receipt], list[Task]]:
    """The reused receipts, and a task for each other partition, in the order of the inputs."""
    reused: list[Receipt] = []
    tasks: list[Task] = []
    for one in plan.inputs:
        if (receipts := folder.find(one.memo)) is not None:
            reused += receipts
        else:
            tasks += [_task(plan, folder, options, one, partition) for partition in one.partitions]
    return reused, tasks


def _task(
    plan: Plan,
    folder: _Folder,
    options: Options,
    one: Input,
    partition: Partition,
    repeats: tuple[Repeat, ...] = (),
) -> Task:
    loaded = plan.schemas[one.claim.schema_index]
    return Task(
        partition,
        loaded.schema.model_dump_json(),
        str(loaded.path),
        str(plan.raw),
        str(folder.clean.staging),
        one.memo,
        one.sha256,
        one.stamp,
        options.fsync,
        repeats,
    )


def _second_pass(
    plan: Plan, folder: _Folder, options: Options, receipts: list[Receipt], watch: Watch
) -> tuple[list[Receipt], dict[str, Mapping[str, int]], tuple[FileNote, ...]]:
    """Find repeated records across all partitions, and process those partitions again that lose a record.

    Returns:
        All receipts; by schema and reason, the number of repeated records that stay; the faults of files.
    """
    repeated: dict[str, Mapping[str, int]] = {}
    notes: dict[tuple[str, str, int], tuple[tuple[int, str], ...]] = {}
    tasks: list[Task] = []
    replaced: set[tuple[str, str, int]] = set()
    cache = KeyCache(folder.clean.path, force=options.force)
    inputs = {(plan.contracts[one.claim.schema_index].name, one.claim.source): one for one in plan.inputs}
    for loaded in plan.schemas:
        own = sorted((r for r in receipts if r.contract == loaded.schema.name), key=lambda r: r.order)
        found = find_repeats(loaded.schema, own, folder.locate, cache)
        repeated[loaded.schema.name] = found.flagged
        notes |= {own[index].order: noted for index, noted in found.notes.items()}
        for index, receipt in enumerate(own):
            repeats = found.rejected.get(index, ())
            if repeats == receipt.repeats:
                continue
            one = inputs[receipt.contract, receipt.source]
            partition = next(p for p in partitions_of(plan, one) if p.order == receipt.chunk)
            tasks.append(_task(plan, folder, options, one, partition, repeats))
            replaced.add(receipt.order)
    cache.save()
    left = [receipt for receipt in receipts if receipt.order not in replaced]
    results = _engine(options.engine)(tasks, process_partition, options.workers, watch.partition)
    receipts, faults = _complete_files(left, results)
    return _with_notes(plan, folder, options, receipts, notes), repeated, faults


def _with_notes(
    plan: Plan,
    folder: _Folder,
    options: Options,
    receipts: Sequence[Receipt],
    notes: Mapping[tuple[str, str, int], tuple[tuple[int, str], ...]],
) -> list[Receipt]:
    """The receipts, after the shards of each carry the notes of the second pass."""
    outputs = {loaded.schema.name: loaded.schema.output for loaded in plan.schemas}
    tasks, done = [], []
    for receipt in receipts:
        own = notes.get(receipt.order, ())
        if notes_digest(own) == receipt.noted:
            done.append(receipt)
            continue
        shards = {
            name: str(folder.locate(name)) for name in receipt.files() if not name.startswith(QUARANTINE)
        }
        staging = str(folder.clean.staging)
        tasks.append(NoteTask(receipt, own, shards, outputs[receipt.contract], staging, options.fsync))
    return [*done, *_engine(options.engine)(tasks, write_notes, options.workers, ignore)]


def _worker(watch: Watch, options: Options, tasks: int) -> Callable[[Task], Receipt | FileNote]:
    """The function that an engine calls for each task. In this process, it also reports each batch."""
    if options.engine == "local" and (options.workers == 1 or tasks == 1):
        return lambda task: process_partition(task, watch.batch)
    return process_partition


def _complete_files(
    reused: list[Receipt], results: Sequence[Receipt | FileNote]
) -> tuple[list[Receipt], tuple[FileNote, ...]]:
    """The receipts of complete files, and the faults: when one partition of a file fails, the whole file does."""
    faults = tuple(dict.fromkeys(one for one in results if isinstance(one, FileNote)))
    failed = {fault.source for fault in faults}
    receipts = [*reused, *(one for one in results if isinstance(one, Receipt))]
    return [one for one in receipts if one.source not in failed], faults


def _notes_on_empty_files(notes: Sequence[FileNote], receipts: Sequence[Receipt]) -> list[FileNote]:
    """Notes on files and sheets that hold rows (a header, blank rows) but no record."""
    records: Counter[tuple[str, str | None]] = Counter()
    for receipt in receipts:
        records[receipt.source, receipt.sheet] += receipt.certified + receipt.quarantined
    noted = {note.source for note in notes if note.reason is Reason.FILE_EMPTY}
    return [
        FileNote(
            Reason.FILE_EMPTY,
            source,
            f"no record in the sheet {sheet!r}" if sheet else "no record",
            "records",
        )
        for (source, sheet), count in sorted(records.items(), key=lambda item: (item[0][0], item[0][1] or ""))
        if not count and source not in noted
    ]


def _refuse_unreadable(faults: Sequence[FileNote], receipts: Sequence[Receipt]) -> None:
    """Raise ``InputError`` with the faults of the files where no record was read."""
    if not faults or any(receipt.rows_read for receipt in receipts):
        return
    first, others = faults[0], len(faults) - 1
    raise InputError(
        "no file could be read" if others else first.reason.facts.title.lower(),
        where=first.source,
        found=first.reason.message(first.found, first.expected)
        + (f" (and {others} more files that cannot be read)" if others else ""),
        remedy=first.reason.facts.remedy,
    )


def _with_budget(schemas: list[LoadedSchema], rate: float | None) -> list[LoadedSchema]:
    if rate is None:
        return schemas
    return [
        replace(
            loaded,
            schema=loaded.schema.model_copy(
                update={"quarantine": loaded.schema.quarantine.model_copy(update={"max_rate": rate})}
            ),
        )
        for loaded in schemas
    ]


def _check_folders(raw: Path, clean: Path) -> None:
    """Raise ``SchemaError`` where one of the two folders is inside the other."""
    inside, outside = raw.resolve(), clean.resolve()
    if outside == inside or inside in outside.parents or outside in inside.parents:
        raise SchemaError(
            "the raw folder and the output folder may not lie inside each other",
            where=f"{raw}, {clean}",
            remedy="choose an output folder beside the raw folder",
        )


def _engine(name: str) -> Engine:
    if name == "ray":
        from pipeline.engine import ray

        return ray.run_all
    from pipeline.engine import local

    return local.run_all
