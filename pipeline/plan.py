"""The plan: which file is read by which schema, in which partitions, by which stages, and what each schema
promises.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipeline
from pipeline.certificate.cache import HashCache
from pipeline.certificate.digest import digest_of, sha256
from pipeline.certificate.receipt import memo_key
from pipeline.certificate.statement import Contract, Inputs
from pipeline.errors import InputError
from pipeline.findings import FileFault, FileNote, file_fault
from pipeline.readers.discover import Claim, discover
from pipeline.readers.formats import Inspection, Partition, load_reader
from pipeline.reasons import Policy, Reason, Scope
from pipeline.schema.load import LoadedSchema
from pipeline.schema.model import Schema
from pipeline.stages.build import Stages, build_stages

if TYPE_CHECKING:
    from pipeline.fields import Field


# The libraries whose version is part of every memo key and of the certificate.


ALWAYS = ("fastexcel", "msgspec", "numpy", "pandera", "polars", "pyarrow")
"""What reads, casts and judges records of any kind and writes shards."""

LIBRARIES = (*ALWAYS, "jinja2", "pillow", "tokenizers")
"""Libraries whose version can change the bytes of a shard.

Not here: fastokens, which is proven equal to tokenizers; transformers, which loads a tokenizer of the hub and no more,
for the contract holds the digests of what it loads; datasets, which reads shards on the training side alone.
"""


def library_versions() -> dict[str, str]:
    """Installed version of each library that can change bytes."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def used_by(schema: Schema) -> dict[str, str]:
    """Installed version of each library that can change the bytes made with a schema."""
    names = set(ALWAYS)
    if schema.chat is not None:  # templates
        names.add("jinja2")
    if schema.layout is not None and schema.layout.image is not None:
        names.add("pillow")
    if schema.tokenizer is not None:
        names.add("tokenizers")
    return {name: importlib.metadata.version(name) for name in sorted(names)}


# What one schema promises, resolved before a row is read: the contract that the certificate binds.


def dataset_names(schema: Schema) -> dict[str, str]:
    """Data set of each split: ``{"": name}`` without splits, else ``{split: name.split}``."""
    if schema.split is None:
        return {"": schema.name}
    return {split: f"{schema.name}.{split}" for split in schema.split.shares}


def pages_name(schema: Schema) -> str:
    """Data set of the page images."""
    return f"{schema.name}.pages"


def contract_of(line: Stages) -> Contract:
    """The contract of a schema whose stages are built."""
    schema, context = line.context.schema, line.context
    resolved = schema.model_dump(
        mode="json", exclude={"description", "tokenizer", "files", "ignore", "quarantine"}
    )
    datasets = dict.fromkeys(dataset_names(schema).values(), line.shard)
    if line.pages is not None:
        datasets[pages_name(schema)] = line.pages
    tokenizer = context.tokenizer
    return Contract(
        name=schema.name,
        version=schema.version,
        kind=schema.kind,
        digest=digest_of(resolved),
        datasets=datasets,
        parameters=_parameters(schema),
        tokenizer=tokenizer.describe() if tokenizer is not None else None,
        template=sha256(line.template.encode()) if line.template is not None else None,
        labels=line.labels,
        limits=asdict(context.limits),
        guarantees=[reason.slug for reason in Reason if _guaranteed(schema, reason)],
        max_rate=schema.quarantine.max_rate,
        libraries=used_by(schema),
    )


def decides(contract: Contract) -> dict[str, Any]:
    """All that decides the bytes made of a source, beside the source: part of every memo key."""
    return {
        "contract": contract.digest,
        "name": contract.name,
        "tokenizer": contract.tokenizer,
        "template": contract.template,
        "limits": contract.limits,
        "semantics": pipeline.SEMANTICS,
        "libraries": contract.libraries,
    }


def _guaranteed(schema: Schema, reason: Reason) -> bool:
    """Whether a certified record cannot have this finding."""
    return reason.facts.scope is Scope.RECORD and schema.policy(reason) is Policy.QUARANTINE


def _parameters(schema: Schema) -> dict[str, Any]:
    """The sections that say how records become samples, every default spelled out."""
    sections = ("read", "layout", "chat", "table", "tokens", "policies", "split", "output")
    dumped: dict[str, Any] = schema.model_dump(mode="json", include=set(sections))
    return {key: value for key, value in dumped.items() if value is not None}


# Inspection: format, encoding, delimiter, header, sheets and ranges of one file, proven before it is read.


def inspect_file(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove what a claimed file is and cut it into partitions.

    The cuts depend on the bytes of the file alone. Raises ``FileFault`` for a file that cannot be read.
    """
    limit = schema.read.limits.file_mb
    if claim.bytes > limit * 2**20:
        raise file_fault(Reason.FILE_LIMIT, claim.source, f"{-(-claim.bytes // 2**20)} MB", f"{limit} MB")
    delimited = claim.format in ("csv", "tsv")
    name = "lines" if delimited and schema.read.line_format is not None else claim.format
    name = "reshaped" if schema.read.reshape else name
    try:
        found = load_reader(name, claim.source).inspect(claim, schema, fields)
        if schema.read.group_by is None:
            return found
        from pipeline.readers.grouped_rows import plan_groups

        return plan_groups(found, claim.path, schema, fields)
    except OSError as error:
        raise file_fault(
            Reason.FILE_UNREADABLE, claim.source, error.strerror or type(error).__name__, name
        ) from None


# The plan: which file is read by which schema, in which partitions, by which stages; made before a row is
# read.


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
    lines: tuple[Stages, ...]
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
            libraries=dict(sorted(item for c in self.contracts for item in c.libraries.items())),
            notes=sorted(notes),
            repeated=repeated,
        )


def make_plan(
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
    lines = tuple(build_stages(loaded, raw) for loaded in schemas)
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
    return inspect_file(one.claim, line.context.schema, line.context.fields).partitions


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
    claim: Claim, line: Stages, decided: str, known: Known | None, cache: HashCache
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
    inspection = inspect_file(claim, line.context.schema, line.context.fields)
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
