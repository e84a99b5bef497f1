"""One row of the table: raw files in which one record (or file) has a finding, and a near miss beside it has none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.reasons import Policy, Reason

TOKENIZERS = Path(__file__).resolve().parents[2] / "data_samples" / "tokenizers"
LLAMA3, LAYOUTLMV3 = TOKENIZERS / "tiny-llama3", TOKENIZERS / "tiny-layoutlmv3"

Slugs = frozenset[str]
NONE: Slugs = frozenset()


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link in the raw folder; its target is relative to the link."""

    target: str


@dataclass(frozen=True, slots=True)
class Case:
    """A reason, and raw input that gives it in one place and not in another.

    A place is ``file:row`` for a record, and the file (or folder) for what is said of a file.

    Attributes:
        schema: the schema, without what is the same for all.
        files: raw files by name. A name with ``..`` lies beside the raw folder, as the schema does.
        at: where the finding is.
        near: the record with the near miss; it is certified.
        beside, near_beside: other findings on the two, where the input cannot be without.
        others: findings elsewhere.
        name: says which of several cases of the reason this is.
        policies: as in a schema.
        under: policies that the reason allows and that leave another note than the reason's own slug, with it.
        final: whether the last look at the sample finds it, which lets nothing through whatever the policy says.
        meddle: called with the raw folder when the plan is made and before the files are read.
    """

    reason: Reason
    schema: Mapping[str, Any]
    files: Mapping[str, bytes | str | Link]
    at: str
    near: str
    beside: Slugs = NONE
    near_beside: Slugs = NONE
    others: Mapping[str, Slugs] = field(default_factory=dict)
    name: str = ""
    policies: Mapping[str, str] = field(default_factory=dict)
    under: Mapping[Policy, Slugs] = field(default_factory=dict)
    final: bool = False
    meddle: Callable[[Path], None] | None = None

    @property
    def id(self) -> str:
        """What a test run shows."""
        return f"{self.reason.slug}-{self.name}" if self.name else self.reason.slug

    @property
    def policy(self) -> Policy:
        """What becomes of the record."""
        return Policy(self.policies.get(self.reason.slug, self.reason.facts.default))

    @property
    def found(self) -> dict[str, Slugs]:
        """All findings of the run, by place."""
        places = {self.at: self.beside | {self.reason.slug}, **self.others}
        return places | {self.near: self.near_beside} if self.near_beside else places


@dataclass(frozen=True, slots=True)
class RunCase:
    """A reason that ends the run before a record is read, and a near miss that is certified.

    Attributes:
        schema, near_schema: the two schemas; what differs is what is wrong.
        files: raw files by name, the same for both; all their records are certified under ``near_schema``.
    """

    reason: Reason
    schema: Mapping[str, Any]
    near_schema: Mapping[str, Any]
    files: Mapping[str, bytes | str]
    name: str = ""

    @property
    def id(self) -> str:
        """What a test run shows."""
        return f"{self.reason.slug}-{self.name}" if self.name else self.reason.slug


def lines(*records: Any) -> str:
    """JSON Lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def table(columns: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A schema of a table; without columns, of one text column."""
    return {"kind": "table", "columns": columns or {"text": {}}, "table": {}, **more}
