"""The plan of a run: which schema reads which file, in which partitions, with which stages, and what each schema
promises (its contract). It is made before the first row is read.
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
from pipeline.schema.model import ChatSchema, LayoutSchema, Schema
from pipeline.stages.build import Stages, build_stages

if TYPE_CHECKING:
    from pipeline.fields import Field


ALWAYS = ("fastexcel", "msgspec", "numpy", "pandera", "polars", "pyarrow")
"""What reads, casts and judges records of any kind and writes shards."""

LIBRARIES = (*ALWAYS, "jinja2", "pillow", "tokenizers")
"""Libraries whose version can change the bytes of a shard. Those that a schema uses are part of its memo keys and of
the certificate.

The fast tokenizer engine is not here, because it is proven to give the same ids; nor is transformers, which only loads
a tokenizer of the hub (the contract holds the digests of what it loads); nor datasets, which reads shards on the
training side alone.
"""


def library_versions() -> dict[str, str]:
    """The installed version of each library that can change bytes."""
    return {name: importlib.metadata.version(name) for name in LIBRARIES}


def used_by(schema: Schema) -> dict[str, str]:
    """Installed version of each library that can change the bytes made with a schema."""
    names = set(ALWAYS)
    if isinstance(schema, ChatSchema):  # templates
        names.add("jinja2")
    if isinstance(schema, LayoutSchema) and schema.layout.image is not None:
        names.add("pillow")
    if schema.tokenizer is not None:
        names.add("tokenizers")
    return {name: importlib.metadata.version(name) for name in sorted(names)}


# The contract of a schema: its promises, which the certificate binds.


def dataset_names(schema: Schema) -> dict[str, str]:
    """The data set of each split: ``{"": name}`` without splits, else ``{split: name.split}``."""
    if schema.split is None:
        return {"": schema.name}
    return {split: f"{schema.name}.{split}" for split in schema.split.shares}


def pages_name(schema: Schema) -> str:
    """The data set of the page images."""
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
        guarantees=[reason.slug for reason in Reason if _is_guaranteed(schema, reason)],
        max_rate=schema.quarantine.max_rate,
        libraries=used_by(schema),
    )


def decides(contract: Contract) -> dict[str, Any]:
    """Everything apart from the source that decides the bytes made of it; part of every memo key."""
    return {
        "contract": contract.digest,
        "name": contract.name,
        "tokenizer": contract.tokenizer,
        "template": contract.template,
        "limits": contract.limits,
        "semantics": pipeline.SEMANTICS,
        "libraries": contract.libraries,
    }


def _is_guaranteed(schema: Schema, reason: Reason) -> bool:
    """Whether a certified record cannot have this finding."""
    return reason.facts.scope is Scope.RECORD and schema.policy(reason) is Policy.QUARANTINE


def _parameters(schema: Schema) -> dict[str, Any]:
    """The schema sections that decide how records become samples, with all defaults."""
    sections = ("read", "layout", "chat", "table", "tokens", "policies", "split", "output")
    dumped: dict[str, Any] = schema.model_dump(mode="json", include=set(sections))
    return {key: value for key, value in dumped.items() if value is not None}


# Inspection: format, encoding, delimiter, header, sheets and partitions of one file.


def inspect_file(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove the format of a claimed file and divide it into partitions.

    The partitions depend on the bytes of the file alone. Raises ``FileFault`` for a file that cannot be read.
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


# The plan itself.


Known = Callable[[str, str], tuple[FileNote, ...] | None]
"""(memo key, source) → notes on the file when its receipts can be reused, else None."""


@dataclass(frozen=True, slots=True)
class Input:
    """A claimed file, as the plan found it.

    Attributes:
        claim: the file and the schema that reads it.
        sha256: digest of its content.
        memo: key of everything that decides the bytes made of it.
        stamp: size in bytes, modification and change time in nanoseconds; they show a change during the reading.
        partitions: its partitions; empty when its receipts can be reused.
    """

    claim: Claim
    sha256: str
    memo: str
    stamp: tuple[int, int, int]
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run will do.

    Attributes:
        raw: the raw folder.
        schemas, lines, contracts: the schemas, their stages and their contracts; ``claim.schema_index`` is the index.
        inputs: claimed files that can be read, sorted by schema and source.
        notes: notes on files: skipped or unclaimed files, hidden sheets.
        faults: files that cannot be read; they change the exit code and do not stop the run.
        listing: digest of the listing of the raw folder (``pipeline.readers.discover``).
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
        """The content of the certificate apart from the receipts.

        Args:
            faults: files that failed during the reading.
            repeated: by schema and reason, the number of repeated records that are counted and kept.
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
    """Make the plan: load the tokenizers, check the templates, hash and inspect every file.

    Args:
        raw: the raw folder.
        schemas: the loaded schemas, in the order given.
        known: gives the notes on a file whose receipts can be reused, so that it need not be inspected.
        cache: the digest cache of the raw folder.

    Raises:
        InputError: the raw folder is missing or holds no file that a schema reads.
        SchemaError, TokenizerError: a file that a schema names is missing or does not fit.
    """
    check_raw(raw)
    lines = tuple(build_stages(loaded, raw) for loaded in schemas)
    contracts = tuple(contract_of(line) for line in lines)
    decided = [digest_of(decides(contract)) for contract in contracts]
    found = discover(raw, [loaded.schema for loaded in schemas])
    _require_a_claim(raw, schemas, found.claims, found.notes)
    cache = cache or HashCache(raw)
    inputs: list[Input] = []
    notes = list(found.notes)
    lost: list[FileNote] = []
    for claim in found.claims:
        line = lines[claim.schema_index]
        try:
            one, on_file = _input(claim, line, decided[claim.schema_index], known, cache)
        except FileFault as fault:
            lost.append(fault.note)
            continue
        inputs.append(one)
        notes += on_file
    cache.save()
    inputs.sort(key=lambda i: (i.claim.schema_index, i.claim.source))
    faults = (*(note for note in notes if note.reason.facts.default is Policy.ERROR), *lost)
    kept = tuple(note for note in notes if note.reason.facts.default is not Policy.ERROR)
    return Plan(raw, tuple(schemas), lines, contracts, tuple(inputs), kept, faults, found.listing)


def partitions_of(plan: Plan, one: Input) -> tuple[Partition, ...]:
    """The partitions of an input, also of one whose receipts are reused.

    Raises:
        FileFault: the file cannot be read.
    """
    if one.partitions:
        return one.partitions
    line = plan.lines[one.claim.schema_index]
    return inspect_file(one.claim, line.context.schema, line.context.fields).partitions


def check_raw(raw: Path) -> None:
    """Raise ``InputError`` where the raw folder is missing or is not a folder."""
    if not raw.is_dir():
        raise InputError(
            "the raw folder is a file" if raw.exists() else "the raw folder is not there",
            where=str(raw),
            remedy="give the folder that holds the files",
        )


def stamp(path: Path) -> tuple[int, int, int]:
    """Size in bytes, modification and change time in nanoseconds of a file."""
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


def _require_a_claim(
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
