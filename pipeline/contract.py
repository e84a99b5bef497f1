"""What one schema promises, resolved before a row is read: the contract that the certificate binds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pipeline
from pipeline.certificate.digest import digest_of, sha256
from pipeline.certificate.statement import Contract
from pipeline.libraries import libraries
from pipeline.reasons import Policy, Reason, Scope
from pipeline.schema.model import Schema
from pipeline.stages.line import Line, label_names


def dataset_names(schema: Schema) -> dict[str, str]:
    """Data set of each split: ``{"": name}`` without splits, else ``{split: name.split}``."""
    if schema.split is None:
        return {"": schema.name}
    return {split: f"{schema.name}.{split}" for split in schema.split.shares}


def pages_name(schema: Schema) -> str:
    """Data set of the page images."""
    return f"{schema.name}.pages"


def contract_of(line: Line) -> Contract:
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
        template=_template(line),
        labels=label_names(schema),
        limits=_limits(line),
        guarantees=[reason.slug for reason in Reason if _guaranteed(schema, reason)],
        max_rate=schema.quarantine.max_rate,
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
        "libraries": libraries(),
    }


def _guaranteed(schema: Schema, reason: Reason) -> bool:
    """Whether a certified record cannot have this finding."""
    return reason.facts.scope is Scope.RECORD and schema.policy(reason) is Policy.QUARANTINE


def _parameters(schema: Schema) -> dict[str, Any]:
    """The sections that say how records become samples, every default spelled out."""
    sections = ("read", "layout", "chat", "table", "tokens", "policies", "split", "output")
    dumped: dict[str, Any] = schema.model_dump(mode="json", include=set(sections))
    return {key: value for key, value in dumped.items() if value is not None}


def _limits(line: Line) -> dict[str, Any]:
    limits = line.context.limits
    return {} if limits is None else asdict(limits)


def _template(line: Line) -> str | None:
    """Digest of the template's text, for chats."""
    text = getattr(line.encode, "template_source", None)
    return sha256(text.encode()) if isinstance(text, str) else None
