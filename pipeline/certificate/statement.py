"""The certificate: an in-toto Statement whose one subject is the root digest, and whose predicate lists all files.

With one subject per file, a deleted file would go unnoticed; one root binds them all. The same content gives the same
bytes: the certificate holds no time, host, user, duration or float (the run record holds those).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipeline.certificate.digest import canonical, digest_of, floats_as_text, parse_json, root_digest
from pipeline.certificate.receipt import Receipt, statistics_of_parts, total, total_histogram
from pipeline.shards.files import SHARD_FOLDER, Part, data_folder, quarantine_folder

if TYPE_CHECKING:
    import pyarrow as pa

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:cleanroom-pipeline:certificate:v1"
SUBJECT = "clean"
CERTIFICATE = "certificate.json"
FORM_ERRORS = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
"""The errors that reading a value of an unexpected form raises."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What one schema promises of its data sets; resolved before the first row is read.

    Attributes:
        name, version, kind: of the schema.
        digest: of the resolved schema.
        datasets: Arrow schema of each data set of the schema (splits, pages), also of empty ones.
        parameters: resolved parameters that decide bytes (limits, stride, rounding, policies …); the certificate
            writes floats as their exact text.
        tokenizer: class, size, special ids, digest and probe digest; None without a tokenizer.
        template: digest of the chat template; None without one.
        labels: names of the labels in the order of their ids.
        limits: limits of the target model (embedding rows, token and 2-D positions, label count …), which preflight
            compares with the statistics.
        guarantees: ids of the hazards that every sample is checked for.
        max_rate: largest share of records that may be quarantined, 0 to 1.
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
    """The content of a certificate apart from the receipts.

    Attributes:
        contracts: one per schema.
        version, semantics: of this program (``pipeline.__version__``, ``pipeline.SEMANTICS``).
        libraries: versions of the libraries that can change bytes, those of all contracts.
        notes: (reason slug, source, found, expected) of files that were skipped, unclaimed or unreadable.
        repeated: by contract and reason slug, the number of repeated records that are counted and kept.
    """

    contracts: Sequence[Contract]
    version: str
    semantics: int
    libraries: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[tuple[str, str, str, str]] = ()
    repeated: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    """A certificate: the root digest, and the predicate as plain JSON values that nobody changes.

    ``without_floats`` promises that the predicate holds no float: it was parsed by ``parse_json``.
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
        # "predicate" sorts between "_type" and "predicateType".
        return b"".join([head[:-2], b',"predicate":', self._content[:-1], b",", tail[1:]])

    @cached_property
    def files(self) -> dict[str, Part]:
        """Every shard by its name relative to the output folder; raises ``ValueError`` for a folder without shards."""
        for item in self.predicate["files"]:
            if not SHARD_FOLDER.fullmatch(item["folder"]):
                raise ValueError("a shard in a place where none can be")
        return {f"{item['folder']}/{item['name']}": Part.from_json(item) for item in self.predicate["files"]}

    @property
    def datasets(self) -> dict[str, Mapping[str, Any]]:
        """The entry of each data set: contract, Arrow schema, rows, shards in order, statistics, lengths."""
        return dict(self.predicate["datasets"])

    def receipts(self) -> list[Receipt]:
        """The receipt of every partition, in order."""
        return list(self._receipts)

    @cached_property
    def _receipts(self) -> tuple[Receipt, ...]:
        files = self.files
        return tuple(Receipt.from_json(item, files) for item in self.predicate["partitions"])

    def recomputed_root(self) -> str:
        """The root digest of the file list and the predicate, computed anew."""
        listed = self.predicate["files"]
        files = [(f"{file['folder']}/{file['name']}", file["sha256"], file["rows"]) for file in listed]
        return root_digest(files, self._content)

    @classmethod
    def of_predicate(cls, predicate: Mapping[str, Any], files: Mapping[str, Part]) -> Statement:
        """The statement of a predicate, with its computed root; ``files`` are the files that it lists."""
        without_root = cls("", predicate)
        statement = cls(without_root.recomputed_root(), predicate)
        # Fill the cached properties: both values are known here and costly.
        statement.__dict__.update(_content=without_root._content, files=dict(files))
        return statement

    @cached_property
    def _content(self) -> bytes:
        """Canonical bytes of the predicate: most of the cost of a certificate, so they are made once."""
        return canonical(self.predicate, without_floats=self.without_floats)


def make_statement(inputs: Inputs, receipts: Sequence[Receipt], empty: Mapping[str, Part]) -> Statement:
    """Make the statement of a run.

    Args:
        inputs: the content apart from the receipts.
        receipts: of every partition, in any order.
        empty: the shard without rows of each data set that has no rows.
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
    return Statement.of_predicate(predicate, files)


def parse(content: bytes) -> Statement:
    """The statement of the bytes of a certificate; raises ``ValueError`` where they are no certificate.

    This function checks the form only; ``pipeline.certificate.verify`` checks the content.
    """
    try:
        value = parse_json(content)
        if (value["_type"], value["predicateType"]) != (STATEMENT, PREDICATE):
            raise ValueError("not a certificate of this program")
        (subject,) = value["subject"]
        statement = Statement(str(subject["digest"]["sha256"]), value["predicate"], True)
        _read_all(statement)
    except FORM_ERRORS as error:
        raise ValueError(f"not a certificate: {type(error).__name__}") from error
    return statement


def _read_all(statement: Statement) -> None:
    """Read every part of a statement once; raises one of ``FORM_ERRORS`` where a part has another form."""
    statement.receipts()
    datasets_of(statement)
    for name in statement.predicate["quarantine"]:
        quarantine_parts(statement, name)
    _ = [dataset["rows"] + len(dataset["fields"]) for dataset in statement.datasets.values()]
    _ = statement.predicate["totals"]
    _ = [(reason, source) for reason, source, _, _ in statement.predicate["notes"]]


def totals(receipts: Sequence[Receipt]) -> dict[str, Any]:
    """The summed counts of several partitions."""
    return {
        "rows_read": sum(r.rows_read for r in receipts),
        "certified": sum(r.certified for r in receipts),
        "quarantined": sum(r.quarantined for r in receipts),
        "dropped": total(r.dropped for r in receipts),
        "reasons": total(r.reasons for r in receipts),
        "repairs": total(r.repairs for r in receipts),
        "flags": total(r.flags for r in receipts),
    }


def fields_of(schema: pa.Schema) -> list[list[str]]:
    """An Arrow schema in words: for each column its name, its stored type, and whether it may hold nulls."""
    from pipeline.shards.writer import relaxed

    stored = relaxed(schema)
    return [
        [f.name, str(stored.field(f.name).type), "nullable" if f.nullable else "not null"] for f in schema
    ]


def _contract(contract: Contract) -> dict[str, Any]:
    entry: dict[str, Any] = floats_as_text(
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
    return entry | {"labels_digest": digest_of(list(contract.labels)) if contract.labels else None}


def _dataset(
    name: str, contract: Contract, schema: pa.Schema, receipts: Sequence[Receipt], empty: Mapping[str, Part]
) -> dict[str, Any]:
    own = [r for r in receipts if r.contract == contract.name]
    parts = [part for receipt in own for part in receipt.parts.get(name, ())]
    if not parts:
        parts = [empty[name]]
    return {
        "contract": contract.name,
        "fields": fields_of(schema),
        "rows": sum(part.rows for part in parts),
        "parts": [part.name for part in parts],
        "statistics": statistics_of_parts(parts),
        "lengths": total_histogram(r.lengths.get(name, {}) for r in own),
    }


def _quarantine(contract: str, receipts: Sequence[Receipt]) -> dict[str, Any]:
    own = [receipt for receipt in receipts if receipt.contract == contract]
    return {
        **totals(own),
        "parts": [part.name for receipt in own for part in receipt.quarantine],
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
        name: [files[f"{data_folder(name)}/{part}"] for part in dataset["parts"]]
        for name, dataset in statement.datasets.items()
    }


def quarantine_parts(statement: Statement, contract: str) -> list[str]:
    """Names of the quarantine shards of a schema relative to the output folder, in order."""
    folder = quarantine_folder(contract)
    return [f"{folder}/{name}" for name in statement.predicate["quarantine"][contract]["parts"]]
