"""A run that finds nothing changed ends here: fingerprints of program, options and files against those of the
last run.

Every finished run leaves a record in the user's cache folder (``certificate/cache.py`` says what of it is trusted).
The next run publishes the same certificate once more where all of this holds:

- the circumstances (program, libraries, options) and every file that a schema names are as they were (``ground.py``);
- the listing of the raw folder is the same, and each file that was read has the same digest;
- the certificate in the folder is the one of the record, byte for byte; the digests it binds of inputs, and of the
  files that records name, are those found now; every shard it names is whole.

So nothing false can come of a record: what it says of files is checked against them, and the certificate is not made
from it. Anything else is a whole run. Stamps of files are trusted as ``certificate/cache.py`` says, never of files
that changed just before they were looked at.
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
from pipeline.certificate.cache import HashCache, KeptFile, settled, stamp
from pipeline.certificate.digest import digest_of, sha256
from pipeline.certificate.statement import CERTIFICATE, Statement
from pipeline.findings import FileNote
from pipeline.publish import CleanFolder, PublishOutcome
from pipeline.readers.discover import listing_digest
from pipeline.reasons import Reason
from pipeline.report.events import Options, Summary, Watch

if TYPE_CHECKING:
    from pipeline.plan import Plan
    from pipeline.schema.load import LoadedSchema


# The ground a result stands on, beside the raw files: the program, its libraries, the options, and every
# file that a schema names. Taken before a run and compared before the next one, without reading a schema or
# loading a tokenizer.


FILES = 10_000
"""Most files of a folder that a schema names; a larger one is not watched, so its runs are whole runs."""

FileState = list[Any] | None
"""Of a file its stamp; of a folder the name and stamp of each file in it; of what is not there, None."""


def program_fingerprint(options: Options) -> str:
    """Digest of the program's own files, the interpreter, the installed libraries, and the options that decide."""
    return digest_of(
        {
            "version": [pipeline.__version__, pipeline.SEMANTICS, sys.version],
            "program": sorted(_files(Path(pipeline.__file__).parent)),
            "libraries": list(_installed()),
            "raw": os.fsdecode(os.path.realpath(options.raw)),
            "schemas": [str(path.absolute()) for path in options.schemas],
            "max_quarantine": repr(options.max_quarantine),
        }
    )


def files_of_schemas(schemas: Iterable[LoadedSchema]) -> list[Path] | None:
    """Files and folders that schemas name, their own files and those of presets included; None where one names
    something of the network.

    A model's configuration stands for its whole folder: the weights beside it are looked at, too.
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
    """Each path as it stands."""
    return {str(path.absolute()): _facts(path) for path in paths}


def are_settled(looked: Mapping[str, FileState]) -> bool:
    """Whether all files are there and none changed just now, so that their stamps can be trusted from now on."""
    stamps = [one for facts in looked.values() if facts for one in _stamps(facts)]
    return None not in looked.values() and all(settled(tuple(one)) for one in stamps)


def _stamps(facts: list[Any]) -> list[Any]:
    return [facts] if isinstance(facts[0], int) else [one for _, one in facts]


def _facts(path: Path) -> FileState:
    if not path.is_dir():
        found = stamp(path)
        return None if found is None else list(found)
    names = sorted(os.listdir(path))  # noqa: PTH208 - names alone
    if len(names) > FILES:
        return None
    stamps = [(name, stamp(path / name)) for name in names]
    return [[name, list(found)] for name, found in stamps if found is not None]


def _files(folder: Path) -> Iterator[list[Any]]:
    """Name, size and time of each file of the program."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _files(Path(entry.path))
        else:
            facts = entry.stat()
            yield [entry.path, facts.st_size, facts.st_mtime_ns]


def _installed() -> Iterator[list[str]]:
    """Every library that can be imported, with its version: installers name its folder of facts by both."""
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 - names alone
        except OSError:
            continue
        yield sorted(
            name for name in names if name.endswith((".dist-info", ".egg-info", ".egg-link", ".pth"))
        )


# A run that finds nothing changed ends here: no schema is parsed, no tokenizer loaded, no row and no shard
# read.


SUFFIX = ".run"
FORM = {
    "circumstances": str,
    "looked": dict,
    "listing": str,
    "certificate": str,
    "claimed": dict,
    "files": int,
}


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema, as far as a report names it."""

    name: str


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a finished run leaves to the next; also what is told of the plan of a run that finds nothing changed.

    Attributes:
        circumstances, looked, listing: as ``ground`` and ``sources.discover`` give them.
        certificate: its digest.
        claimed: sha256 of each file that was read, by its path in the raw folder.
        schemas: their names.
        files: number of files, counted for each schema that reads them.
        notes: what was said of files.
    """

    circumstances: str
    looked: Mapping[str, FileState]
    listing_digest: str
    certificate: str
    claimed: Mapping[str, str]
    schemas: tuple[str, ...]
    files: int
    notes: tuple[FileNote, ...]
    faults: tuple[FileNote, ...] = ()

    @property
    def inputs(self) -> range:
        """As many as there are files."""
        return range(self.files)

    @property
    def contracts(self) -> tuple[NamedSchema, ...]:
        """The schemas by name."""
        return tuple(map(NamedSchema, self.schemas))


def keep_record(
    options: Options, circumstances: str, looked: Mapping[str, FileState], plan: Plan, summary: Summary
) -> None:
    """Leave a record for the next run, where this one has no fault and nothing it looked at had changed just before.

    Args:
        circumstances, looked: as they were before a schema was read.
    """
    notes = KeptFile(options.clean, SUFFIX)
    if summary.faults or not looked:
        notes.remove()
        return
    record = {
        "circumstances": circumstances,
        "looked": looked,
        "listing": plan.listing,
        "certificate": sha256(summary.outcome.statement.to_bytes()),
        "claimed": {one.claim.source: one.sha256 for one in plan.inputs},
        "schemas": [contract.name for contract in plan.contracts],
        "files": len(plan.inputs),
        "notes": [[n.reason.slug, n.source, n.found, n.expected] for n in summary.notes],
    }
    if record != notes.read():
        notes.write(record)


def unchanged(options: Options, watch: Watch) -> Summary | None:
    """Publish the certificate in the folder once more, where nothing changed; None where a whole run must look.

    Raises:
        BusyError, StorageError: as every run.
    """
    start = time.monotonic()
    if options.force or options.keys or not (options.clean / CERTIFICATE).is_file():
        return None
    record = _record(KeptFile(options.clean, SUFFIX).read())
    if record is None or record.circumstances != program_fingerprint(options):
        return None
    if file_states([Path(name) for name in record.looked]) != record.looked:
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
        outcome = folder.confirm(record.certificate, lambda statement: _agrees(cache, record, statement))
        if outcome is None:
            return None
        watch.planned(record, 0)
    cache.save()
    seconds = {"plan": planned - start, "commit": time.monotonic() - planned}
    return Summary(outcome, record.notes, (), _sources(outcome), seconds)


def _agrees(cache: HashCache, record: RunRecord, statement: Statement) -> bool:
    """Whether the certificate binds the inputs that were found, and the files its records name are as it says."""
    partitions = statement.predicate["partitions"]
    refers = {name: digest for one in partitions for name, digest in one["refers"].items()}
    return all(record.claimed.get(one["source"]) == one["sha256"] for one in partitions) and cache.have(
        refers
    )


def _sources(outcome: PublishOutcome) -> int:
    return len({one["source"] for one in outcome.statement.predicate["partitions"]})


def _record(value: Any) -> RunRecord | None:
    """The record, None where it has not the form."""
    try:
        facts = {field.name: value[field.name] for field in fields(RunRecord) if field.name != "faults"}
        if any(not isinstance(facts[name], kind) for name, kind in FORM.items()):
            return None
        facts["schemas"] = tuple(value["schemas"])
        if any(not isinstance(name, str) for name in facts["schemas"]):
            return None
        facts["notes"] = tuple(
            FileNote(Reason.of(slug), source, found, expected)
            for slug, source, found, expected in value["notes"]
        )
        return RunRecord(**facts)
    except (KeyError, TypeError, ValueError):
        return None
