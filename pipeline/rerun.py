"""A run without changes: publish the last certificate again, without reading a schema, a tokenizer or a row.

Every finished run writes a record to the user's cache folder (``pipeline.certificate.cache`` says which cache files are
trusted). The next run publishes the same certificate again when all of this holds:

- the program, its libraries, its options and every file that a schema names are unchanged;
- the listing of the raw folder is unchanged, and each file that was read has the same digest;
- the certificate in the output folder is the one of the record, to the byte; its digests of inputs, and of the files
  that records refer to, are those found now; every shard that it names is intact.

Otherwise the run does the whole job. A false record cannot give a false result: the certificate is not made from the
record, and every statement of the record about a file is checked against the file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipeline
from pipeline.certificate.cache import CacheFile, HashCache, file_stamp, is_settled
from pipeline.certificate.digest import digest_of, sha256
from pipeline.certificate.statement import CERTIFICATE, Statement
from pipeline.findings import FileNote
from pipeline.publish import CleanFolder
from pipeline.readers.discover import listing_digest
from pipeline.reasons import Reason
from pipeline.report.events import Options, Summary, Watch

if TYPE_CHECKING:
    from pipeline.plan import Plan
    from pipeline.schema.load import LoadedSchema


# What decides a result apart from the raw files: the program, its libraries, its options, the files of the schemas.


FILES = 10_000
"""Largest number of files in a folder that a schema names; with a larger folder, every run does the whole job."""

FileState = list[Any] | None
"""The stamp of a file; for a folder, the name and stamp of each file in it; None for a path that does not exist."""


def program_fingerprint(options: Options) -> str:
    """Digest of the program's files, the interpreter, the installed libraries, and the options that decide bytes."""
    return digest_of(
        {
            "version": [pipeline.__version__, pipeline.SEMANTICS, sys.version],
            "program": sorted(_program_files(Path(pipeline.__file__).parent)),
            "libraries": list(_installed_libraries()),
            "raw": os.fsdecode(os.path.realpath(options.raw)),
            "schemas": [str(path.absolute()) for path in options.schemas],
            "max_quarantine": repr(options.max_quarantine),
        }
    )


def files_of_schemas(schemas: Iterable[LoadedSchema]) -> list[Path] | None:
    """The files and folders that schemas name, their own files and those of presets included; None where a schema
    names a hub id.

    The configuration of a model stands for its whole folder, with the weights in it.
    """
    paths: list[Path] = []
    for loaded in schemas:
        schema, folder = loaded.schema, loaded.folder
        paths.append(loaded.path)
        if loaded.preset is not None:
            paths.append(loaded.preset)
        if schema.tokenizer is not None:
            if schema.tokenizer.path is None:
                return None
            paths.append(folder / schema.tokenizer.path)
        if schema.template_file is not None:
            paths.append(folder / schema.template_file)
        if schema.model.config is not None:
            config = folder / schema.model.config
            paths += [config, config if config.is_dir() else config.parent]
    return paths


def file_states(paths: Sequence[Path]) -> dict[str, FileState]:
    """The current state of each path, by absolute path."""
    return {str(path.absolute()): _file_state(path) for path in paths}


def are_settled(states: Mapping[str, FileState]) -> bool:
    """Whether all files exist and none changed just now, so that their stamps can be trusted."""
    stamps = [stamp for state in states.values() if state for stamp in _stamps(state)]
    return None not in states.values() and all(is_settled(tuple(stamp)) for stamp in stamps)


def _stamps(state: list[Any]) -> list[Any]:
    return [state] if isinstance(state[0], int) else [stamp for _, stamp in state]


def _file_state(path: Path) -> FileState:
    if not path.is_dir():
        stamp = file_stamp(path)
        return None if stamp is None else list(stamp)
    names = sorted(os.listdir(path))  # noqa: PTH208 - names alone
    if len(names) > FILES:
        return None
    stamps = [(name, file_stamp(path / name)) for name in names]
    return [[name, list(stamp)] for name, stamp in stamps if stamp is not None]


def _program_files(folder: Path) -> Iterator[list[Any]]:
    """Path, size and mtime of each file of the program."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _program_files(Path(entry.path))
        else:
            info = entry.stat()
            yield [entry.path, info.st_size, info.st_mtime_ns]


def _installed_libraries() -> Iterator[list[str]]:
    """Every installed library with its version: the name of its metadata folder holds both."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - names alone
        except OSError:
            continue
        yield sorted(
            name for name in names if name.endswith((".dist-info", ".egg-info", ".egg-link", ".pth"))
        )


# The record of a finished run, and the run that it spares.


SUFFIX = ".run"
FORM = {
    "program": str,
    "states": dict,
    "listing": str,
    "certificate": str,
    "claimed": dict,
    "files": int,
}


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema of which only the name is known; it stands for a contract in reports."""

    name: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record of a finished run. In a run without changes it also stands for the plan in reports.

    Attributes:
        program: fingerprint of the program (``program_fingerprint``).
        states: state of each file that a schema names (``file_states``).
        listing: digest of the listing of the raw folder (``pipeline.readers.discover.listing``).
        certificate: sha256 of the certificate.
        claimed: sha256 of each file that was read, by its path in the raw folder.
        schemas: names of the schemas.
        files: number of files, counted once for each schema that reads them.
        notes: notes on files.
        faults: always empty: a run with faults leaves no record.
    """

    program: str
    states: Mapping[str, FileState]
    listing: str
    certificate: str
    claimed: Mapping[str, str]
    schemas: tuple[str, ...]
    files: int
    notes: tuple[FileNote, ...]
    faults: tuple[FileNote, ...] = ()

    @property
    def inputs(self) -> range:
        """One number per file, as the plan has one input per file."""
        return range(self.files)

    @property
    def contracts(self) -> tuple[NamedSchema, ...]:
        """The schemas by name."""
        return tuple(map(NamedSchema, self.schemas))


def keep_record(
    options: Options, program: str, states: Mapping[str, FileState], plan: Plan, summary: Summary
) -> None:
    """Write the record for the next run, or remove it where the run has faults or ``states`` is empty.

    Args:
        options: of the run.
        program, states: fingerprint of the program and states of the schemas' files, taken before the first schema was
            read; without states where a file changed just before.
        plan, summary: of the run.
    """
    file = CacheFile(options.clean, SUFFIX)
    if summary.faults or not states:
        file.remove()
        return
    record = {
        "program": program,
        "states": states,
        "listing": plan.listing,
        "certificate": sha256(summary.outcome.statement.to_bytes()),
        "claimed": {one.claim.source: one.sha256 for one in plan.inputs},
        "schemas": [contract.name for contract in plan.contracts],
        "files": len(plan.inputs),
        "notes": [[n.reason.slug, n.source, n.found, n.expected] for n in summary.notes],
    }
    if record != file.read():
        file.write(record)


def publish_unchanged(options: Options, watch: Watch) -> Summary | None:
    """Publish the certificate in the folder again when nothing changed; None when the whole job must run.

    Raises:
        BusyError, StorageError: as every run.
    """
    start = time.monotonic()
    if options.force or options.keys or not (options.clean / CERTIFICATE).is_file():
        return None
    record = _parse_record(CacheFile(options.clean, SUFFIX).read())
    if record is None or record.program != program_fingerprint(options):
        return None
    if file_states([Path(name) for name in record.states]) != record.states:
        return None
    cache = HashCache(options.raw)
    if (
        not options.raw.is_dir()
        or record.listing != listing_digest(options.raw)
        or not cache.have(record.claimed)
    ):
        return None
    with CleanFolder(options.clean, fsync=options.fsync) as folder:
        planned = time.monotonic()
        outcome = folder.confirm(
            record.certificate, lambda statement: _has_same_inputs(statement, record, cache)
        )
        if outcome is None:
            return None
        watch.planned(record, 0)
    cache.save()
    seconds = {"plan": planned - start, "commit": time.monotonic() - planned}
    sources = {one["source"] for one in outcome.statement.predicate["partitions"]}
    return Summary(outcome, record.notes, (), len(sources), seconds)


def _has_same_inputs(statement: Statement, record: RunRecord, cache: HashCache) -> bool:
    """Whether the certificate binds the digests of the record, and those of the files that its records refer to."""
    partitions = statement.predicate["partitions"]
    if any(record.claimed.get(one["source"]) != one["sha256"] for one in partitions):
        return False
    return cache.have({name: digest for one in partitions for name, digest in one["refers"].items()})


def _parse_record(value: Any) -> RunRecord | None:
    """The record of a cached value; None where it has another form."""
    try:
        values = {field.name: value[field.name] for field in fields(RunRecord) if field.name != "faults"}
        if any(not isinstance(values[name], kind) for name, kind in FORM.items()):
            return None
        values["schemas"] = tuple(value["schemas"])
        if any(not isinstance(name, str) for name in values["schemas"]):
            return None
        values["notes"] = tuple(
            FileNote(Reason.of(slug), source, found, expected)
            for slug, source, found, expected in value["notes"]
        )
        return RunRecord(**values)
    except (KeyError, TypeError, ValueError):
        return None
