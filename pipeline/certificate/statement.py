"""The certificate itself: an in-toto Statement with one subject, the root digest, and the file list inside.

One subject a file would let files be deleted unnoticed; one root binds them all. The bytes are the same for the same
content: no time, host, user, duration or float is in it (the run record has those).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipeline.certificate import receipt as receipts_
from pipeline.certificate import receipt as statistics
from pipeline.certificate.digest import canonical, digest_of, exact, read, root_over
from pipeline.certificate.receipt import Receipt
from pipeline.shards.files import PLACE, Part, data_folder, quarantine_folder

if TYPE_CHECKING:
    import pyarrow as pa

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:cleanroom-pipeline:certificate:v1"
SUBJECT = "clean"
CERTIFICATE = "certificate.json"
FORM_ERRORS = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
"""What reading a value of another form than expected raises."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What one schema promises of the data sets made with it; all resolved before a row is read.

    Attributes:
        name, version, kind: of the schema.
        digest: of the resolved schema.
        datasets: Arrow schema of each data set it makes (splits, pages), also of those that stay empty.
        parameters: resolved parameters that decide bytes (limits, stride, rounding, policies …); floats are written
            by their exact text.
        tokenizer: class, size, special ids, digest and probe digest; None where none is used.
        template: digest of the chat template.
        labels: names of the labels in order of their ids.
        limits: limits of the target model (embedding rows, token and 2-D positions, label count …), which preflight
            compares with the statistics.
        guarantees: ids of the hazards that every sample was judged for.
        max_rate: largest share of records that may be quarantined.
        libraries: versions of the libraries that can change the bytes made with it.
    """

    name: str
    version: int
    kind: str
    digest: str
    datasets: Mapping[str, pa.Schema]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Mapping[str, Any] | None = None
    template: str | None = None
    labels: Sequence[str] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    guarantees: Sequence[str] = ()
    max_rate: float = 1.0
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a certificate says beside the receipts.

    Attributes:
        contracts: one a schema.
        version, semantics: of this program (``pipeline.__version__``, ``pipeline.SEMANTICS``).
        libraries: versions of the libraries that can change bytes, those of all contracts.
        notes: (reason slug, source, found, expected) of files that were skipped, unclaimed or unreadable.
        repeated: by contract, records whose content stands elsewhere and that are only counted, by reason slug.
    """

    contracts: Sequence[Contract]
    version: str
    semantics: int
    libraries: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[tuple[str, str, str, str]] = ()
    repeated: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    """A certificate as read: ``root`` and the predicate, as plain JSON values that nobody changes.

    ``without_floats`` is known of what was read from JSON without any.
    """

    root: str
    predicate: Mapping[str, Any]
    without_floats: bool = field(default=False, compare=False, repr=False)

    def to_bytes(self) -> bytes:
        """The canonical bytes of ``certificate.json``."""
        head = canonical({"_type": STATEMENT})
        tail = canonical(
            {"predicateType": PREDICATE, "subject": [{"name": SUBJECT, "digest": {"sha256": self.root}}]}
        )
        # In the order of their names the predicate's key stands between those of the two.
        return b"".join([head[:-2], b',"predicate":', self._content[:-1], b",", tail[1:]])

    @cached_property
    def files(self) -> dict[str, Part]:
        """Every shard by its name relative to the output folder; raises ``ValueError`` for a place that is none."""
        for item in self.predicate["files"]:
            if not PLACE.fullmatch(item["folder"]):
                raise ValueError("a shard in a place where none can be")
        return {f"{item['folder']}/{item['name']}": Part.from_json(item) for item in self.predicate["files"]}

    @property
    def datasets(self) -> dict[str, Mapping[str, Any]]:
        """Facts of each data set: contract, Arrow schema, rows, shards in order, statistics."""
        return dict(self.predicate["datasets"])

    def receipts(self) -> list[Receipt]:
        """The accounts of every partition, in order."""
        return list(self._receipts)

    @cached_property
    def _receipts(self) -> tuple[Receipt, ...]:
        files = self.files
        return tuple(Receipt.from_json(item, files) for item in self.predicate["partitions"])

    def recomputed_root(self) -> str:
        """The root that the file list and the predicate give."""
        return root_over(_listed(self.predicate), self._content)

    @classmethod
    def made(cls, predicate: Mapping[str, Any], files: Mapping[str, Part]) -> Statement:
        """The statement of a predicate, under the root that it gives; ``files`` are those that it lists."""
        bare = cls("", predicate)
        statement = cls(bare.recomputed_root(), predicate)
        statement.__dict__.update(_content=bare._content, files=dict(files))  # known, so not made again
        return statement

    @cached_property
    def _content(self) -> bytes:
        """Canonical bytes of the predicate: most of a certificate's cost, so they are made once."""
        return canonical(self.predicate, without_floats=self.without_floats)


def root_of(predicate: Mapping[str, Any]) -> str:
    """Root digest of a predicate and the files it lists."""
    return Statement("", predicate).recomputed_root()


def _listed(predicate: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    return [(f"{f['folder']}/{f['name']}", f["sha256"], f["rows"]) for f in predicate["files"]]


def state(inputs: Inputs, receipts: Sequence[Receipt], empty: Mapping[str, Part]) -> Statement:
    """Make the statement of a run.

    Args:
        inputs: what holds for the whole run.
        receipts: of every partition, in any order.
        empty: the zero-row shard of each data set that got no rows.
    """
    ordered = sorted(receipts, key=lambda receipt: receipt.order)
    files = _files(ordered, empty)
    predicate = {
        "version": 1,
        "program": {"name": "cleanroom-pipeline", "version": inputs.version, "semantics": inputs.semantics},
        "libraries": dict(inputs.libraries),
        "contracts": {contract.name: _contract(contract) for contract in inputs.contracts},
        "datasets": {
            name: _dataset(name, contract, schema, ordered, empty)
            for contract in inputs.contracts
            for name, schema in contract.datasets.items()
        },
        "quarantine": {c.name: _quarantine(c.name, ordered) for c in inputs.contracts},
        "files": [part.to_json() | {"folder": name.rpartition("/")[0]} for name, part in files.items()],
        "partitions": [receipt.to_json() for receipt in ordered],
        "totals": totals(ordered),
        "repeated": {name: dict(counts) for name, counts in inputs.repeated.items() if counts},
        "notes": sorted(list(note) for note in inputs.notes),
    }
    return Statement.made(predicate, files)


def parse(content: bytes) -> Statement:
    """Read the bytes of a certificate; raises ``ValueError`` where they are none.

    Nothing is judged here beyond the form: ``pipeline.certificate.verify`` does that.
    """
    try:
        value = read(content)
        if (value["_type"], value["predicateType"]) != (STATEMENT, PREDICATE):
            raise ValueError("not a certificate of this program")
        (subject,) = value["subject"]
        statement = Statement(str(subject["digest"]["sha256"]), value["predicate"], True)
        statement.receipts()
        datasets_of(statement)
        quarantine = {name: quarantine_parts(statement, name) for name in statement.predicate["quarantine"]}
        _ = quarantine, [facts["rows"] + len(facts["fields"]) for facts in statement.datasets.values()]
        _ = (
            statement.predicate["totals"],
            [(reason, source) for reason, source, _, _ in statement.predicate["notes"]],
        )
    except FORM_ERRORS as error:
        raise ValueError(f"not a certificate: {type(error).__name__}") from error
    return statement


def totals(receipts: Sequence[Receipt]) -> dict[str, Any]:
    """The accounts of several partitions together."""
    return {
        "rows_read": sum(r.rows_read for r in receipts),
        "certified": sum(r.certified for r in receipts),
        "quarantined": sum(r.quarantined for r in receipts),
        "dropped": receipts_.total(r.dropped for r in receipts),
        "reasons": receipts_.total(r.reasons for r in receipts),
        "repairs": receipts_.total(r.repairs for r in receipts),
        "flags": receipts_.total(r.flags for r in receipts),
    }


def fields_of(schema: pa.Schema) -> list[list[str]]:
    """An Arrow schema in words, a column: name, type as stored, and whether nulls may stand there."""
    from pipeline.shards.writer import relaxed

    stored = relaxed(schema)
    return [
        [f.name, str(stored.field(f.name).type), "nullable" if f.nullable else "not null"] for f in schema
    ]


def _contract(contract: Contract) -> dict[str, Any]:
    facts: dict[str, Any] = exact(
        {
            "version": contract.version,
            "kind": contract.kind,
            "digest": contract.digest,
            "parameters": contract.parameters,
            "tokenizer": contract.tokenizer,
            "template": contract.template,
            "labels": list(contract.labels),
            "limits": contract.limits,
            "guarantees": sorted(contract.guarantees),
            "max_rate": contract.max_rate,
        }
    )
    return facts | {"labels_digest": digest_of(list(contract.labels)) if contract.labels else None}


def _dataset(
    name: str, contract: Contract, schema: pa.Schema, receipts: Sequence[Receipt], empty: Mapping[str, Part]
) -> dict[str, Any]:
    mine = [r for r in receipts if r.contract == contract.name]
    parts = [part for receipt in mine for part in receipt.parts.get(name, ())]
    if not parts:
        parts = [empty[name]]
    return {
        "contract": contract.name,
        "fields": fields_of(schema),
        "rows": sum(part.rows for part in parts),
        "parts": [part.name for part in parts],
        "statistics": statistics.statistics_of_parts(parts),
        "lengths": statistics.total_histogram(r.lengths.get(name, {}) for r in mine),
    }


def _quarantine(contract: str, receipts: Sequence[Receipt]) -> dict[str, Any]:
    mine = [receipt for receipt in receipts if receipt.contract == contract]
    return {
        **totals(mine),
        "parts": [part.name for receipt in mine for part in receipt.quarantine],
    }


def _files(receipts: Sequence[Receipt], empty: Mapping[str, Part]) -> dict[str, Part]:
    """Every shard by its name relative to the output folder, in the order of the names."""
    files = {name: part for receipt in receipts for name, part in receipt.files().items()}
    files |= {f"{data_folder(name)}/{part.name}": part for name, part in empty.items()}
    return dict(sorted(files.items()))


def datasets_of(statement: Statement) -> dict[str, list[Part]]:
    """The shards of each data set, in order."""
    files = statement.files
    return {
        name: [files[f"{data_folder(name)}/{part}"] for part in facts["parts"]]
        for name, facts in statement.datasets.items()
    }


def quarantine_parts(statement: Statement, contract: str) -> list[str]:
    """Names of the quarantine shards of a schema relative to the output folder, in order."""
    place = quarantine_folder(contract)
    return [f"{place}/{name}" for name in statement.predicate["quarantine"][contract]["parts"]]
