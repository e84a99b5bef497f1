"""A run that finds nothing changed ends here: no schema is parsed, no tokenizer loaded, no row and no shard read.

Every finished run leaves a record in the user's cache folder (``certificate/notes.py`` says what of it is trusted).
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

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import ground
from pipeline.certificate.cache import HashCache
from pipeline.certificate.digest import sha256
from pipeline.certificate.notes import Notes
from pipeline.certificate.statement import CERTIFICATE, Statement
from pipeline.commit import CleanFolder, Outcome
from pipeline.job import Options, Summary, Watch
from pipeline.reasons import Reason
from pipeline.sources.discover import listing
from pipeline.sources.fault import FileNote

if TYPE_CHECKING:
    from pipeline.plan import Plan

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
class Schema:
    """A schema, as far as a report names it."""

    name: str


@dataclass(frozen=True, slots=True)
class Record:
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
    looked: Mapping[str, ground.Facts]
    listing: str
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
    def contracts(self) -> tuple[Schema, ...]:
        """The schemas by name."""
        return tuple(map(Schema, self.schemas))


def keep(
    options: Options, circumstances: str, looked: Mapping[str, ground.Facts], plan: Plan, summary: Summary
) -> None:
    """Leave a record for the next run, where this one has no fault and nothing it looked at had changed just before.

    Args:
        circumstances, looked: as they were before a schema was read.
    """
    notes = Notes(options.clean, SUFFIX)
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
    record = _record(Notes(options.clean, SUFFIX).read())
    if record is None or record.circumstances != ground.circumstances(options):
        return None
    if ground.look([Path(name) for name in record.looked]) != record.looked:
        return None
    cache = HashCache(options.raw)
    if not options.raw.is_dir() or record.listing != listing(options.raw) or not cache.have(record.claimed):
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


def _agrees(cache: HashCache, record: Record, statement: Statement) -> bool:
    """Whether the certificate binds the inputs that were found, and the files its records name are as it says."""
    partitions = statement.predicate["partitions"]
    refers = {name: digest for one in partitions for name, digest in one["refers"].items()}
    return all(record.claimed.get(one["source"]) == one["sha256"] for one in partitions) and cache.have(
        refers
    )


def _sources(outcome: Outcome) -> int:
    return len({one["source"] for one in outcome.statement.predicate["partitions"]})


def _record(value: Any) -> Record | None:
    """The record, None where it has not the form."""
    try:
        facts = {field.name: value[field.name] for field in fields(Record) if field.name != "faults"}
        if any(not isinstance(facts[name], kind) for name, kind in FORM.items()):
            return None
        facts["schemas"] = tuple(value["schemas"])
        if any(not isinstance(name, str) for name in facts["schemas"]):
            return None
        facts["notes"] = tuple(
            FileNote(Reason.of(slug), source, found, expected)
            for slug, source, found, expected in value["notes"]
        )
        return Record(**facts)
    except (KeyError, TypeError, ValueError):
        return None
