"""The plan: which file is read by which schema, in which partitions, by which stages; made before a row is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pipeline
from pipeline.certificate.cache import HashCache
from pipeline.certificate.digest import digest_of
from pipeline.certificate.receipt import memo_key
from pipeline.certificate.statement import Contract, Inputs
from pipeline.contract import contract_of, decides
from pipeline.errors import InputError
from pipeline.libraries import libraries
from pipeline.reasons import Policy, Reason
from pipeline.schema.load import LoadedSchema
from pipeline.sources.discover import Claim, discover
from pipeline.sources.fault import FileFault, FileNote
from pipeline.sources.inspect import inspect
from pipeline.sources.partition import Partition
from pipeline.stages.line import Line, build

Known = Callable[[str, str], tuple[FileNote, ...] | None]
"""(memo key, source) → notes of the file, or None when it must be read."""


@dataclass(frozen=True, slots=True)
class Input:
    """A claimed file as it was when the plan was made.

    Attributes:
        memo: key of all that decides the bytes made of it.
        stamp: size, modification and change time in ns: a file that changes while it is read is found by it.
    """

    claim: Claim
    sha256: str
    memo: str
    stamp: tuple[int, int, int]
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a run does, resolved.

    Attributes:
        raw: the raw folder.
        schemas, lines, contracts: by index, as the inputs refer to them.
        inputs: claimed files that can be read, by (schema, source).
        notes: what is said of files: skipped, unclaimed, hidden sheets.
        faults: files that cannot be read; they cost the exit code, not the run.
        listing: digest of the raw folder's listing, as ``sources.discover`` gives it.
    """

    raw: Path
    schemas: tuple[LoadedSchema, ...]
    lines: tuple[Line, ...]
    contracts: tuple[Contract, ...]
    inputs: tuple[Input, ...]
    notes: tuple[FileNote, ...]
    faults: tuple[FileNote, ...]
    listing: str = ""

    def certificate_inputs(
        self, faults: Sequence[FileNote], repeated: Mapping[str, Mapping[str, int]]
    ) -> Inputs:
        """What the certificate says beside the receipts.

        Args:
            faults: files that failed while they were read.
            repeated: by schema, records whose content stands elsewhere and that are only counted.
        """
        notes = {(n.reason.slug, n.source, n.found, n.expected) for n in (*self.notes, *self.faults, *faults)}
        return Inputs(
            contracts=self.contracts,
            version=pipeline.__version__,
            semantics=pipeline.SEMANTICS,
            libraries=libraries(),
            notes=sorted(notes),
            repeated=repeated,
        )


def make(
    raw: Path, schemas: Sequence[LoadedSchema], known: Known | None = None, cache: HashCache | None = None
) -> Plan:
    """Make the plan. Tokenizers are loaded and templates probed here, every file is inspected and hashed.

    Args:
        raw: the raw folder.
        schemas: loaded schemas, in the order given.
        known: gives the notes of a source whose result is at hand, so that the file need not be inspected.
        cache: digests of files of the raw folder that did not change.

    Raises:
        InputError: the raw folder is missing or holds nothing that could be read.
        SchemaError, TokenizerError: something a schema names is not there or does not fit.
    """
    check_raw(raw)
    lines = tuple(build(loaded, raw) for loaded in schemas)
    contracts = tuple(contract_of(line) for line in lines)
    decided = [digest_of(decides(contract)) for contract in contracts]
    found = discover(raw, [loaded.schema for loaded in schemas])
    _something_claimed(raw, schemas, found.claims, found.notes)
    cache = cache or HashCache(raw)
    inputs: list[Input] = []
    notes = list(found.notes)
    lost: list[FileNote] = []
    for claim in found.claims:
        line = lines[claim.schema_index]
        try:
            one, said = _input(claim, line, decided[claim.schema_index], known, cache)
        except FileFault as fault:
            lost.append(fault.note)
            continue
        inputs.append(one)
        notes += said
    cache.save()
    inputs.sort(key=lambda i: (i.claim.schema_index, i.claim.source))
    faults = (*(note for note in notes if note.reason.facts.default is Policy.ERROR), *lost)
    kept = tuple(note for note in notes if note.reason.facts.default is not Policy.ERROR)
    return Plan(raw, tuple(schemas), lines, contracts, tuple(inputs), kept, faults, found.listing)


def partitions_of(plan: Plan, one: Input) -> tuple[Partition, ...]:
    """The partitions of an input, also of one whose result was at hand when the plan was made.

    Raises:
        FileFault: the file cannot be read.
    """
    if one.partitions:
        return one.partitions
    line = plan.lines[one.claim.schema_index]
    return inspect(one.claim, line.context.schema, line.context.fields).partitions


def check_raw(raw: Path) -> None:
    """Raises ``InputError`` where the raw folder is missing or is no folder."""
    if not raw.is_dir():
        raise InputError(
            "the raw folder is a file" if raw.exists() else "the raw folder is not there",
            where=str(raw),
            remedy="give the folder that holds the files",
        )


def stamp(path: Path) -> tuple[int, int, int]:
    """Size and times of a file, to notice a change."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _input(
    claim: Claim, line: Line, decided: str, known: Known | None, cache: HashCache
) -> tuple[Input, tuple[FileNote, ...]]:
    try:
        before = stamp(claim.path)
        digest = cache.digest(claim.source)
    except OSError as error:
        note = FileNote(Reason.FILE_UNREADABLE, claim.source, error.strerror or "an error", claim.format)
        raise FileFault(note) from None
    memo = memo_key(claim.source, digest, decided=decided)
    if known is not None and (notes := known(memo, claim.source)) is not None:
        return Input(claim, digest, memo, before, ()), notes
    inspection = inspect(claim, line.context.schema, line.context.fields)
    return Input(claim, digest, memo, before, inspection.partitions), inspection.notes


def _something_claimed(
    raw: Path, schemas: Sequence[LoadedSchema], claims: Sequence[Claim], notes: Sequence[FileNote]
) -> None:
    if claims:
        return
    unclaimed = sum(note.reason is Reason.FILE_UNCLAIMED for note in notes)
    patterns = sorted({pattern for loaded in schemas for pattern in loaded.schema.files})
    raise InputError(
        "no file of the raw folder is claimed by a schema"
        if unclaimed
        else "the raw folder holds no file to read",
        where=str(raw),
        found=f"{unclaimed} file{'s' * (unclaimed > 1)} that no schema claims" if unclaimed else "no file",
        expected=f"files matching {', '.join(patterns[:8])}",
        remedy="put the files there, or correct `files` in the schema",
    )
