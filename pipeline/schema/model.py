"""The schema language, version 1: the whole YAML file as one strict model, one for each kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field as Is
from pydantic import SerializerFunctionWrapHandler, field_serializer, field_validator, model_validator

from pipeline.reasons import Policy, Reason, Scope
from pipeline.schema.chat import Chat
from pipeline.schema.columns import Column, Strict, reserved
from pipeline.schema.layout import Layout
from pipeline.schema.reading import Read


class Tokenizer(Strict):
    """A tokenizer folder, or a hub id with a pinned revision."""

    path: str | None = None
    """Folder with tokenizer.json, relative to the schema file."""
    hub: str | None = None
    revision: str | None = None
    """Commit hash; needed with ``hub``."""

    @model_validator(mode="after")
    def _one_place(self) -> Tokenizer:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give either `path` or `hub`")
        if self.hub is not None and not self.revision:
            raise ValueError("`hub` needs a pinned `revision` (a commit hash)")
        return self


class Model(Strict):
    """The model to be trained: its limits are checked on every token."""

    family: Literal["layoutlm", "layoutlmv2", "layoutxlm", "layoutlmv3", "lilt", "bros"] | None = None
    """Document model family, whose limits hold where no ``config`` says otherwise."""
    config: str | None = None
    """A config.json (or its folder), relative to the schema file; its numbers win."""
    embedding_rows: Annotated[int, Is(gt=0)] | None = None
    """Rows of the embedding matrix; default: of ``config``, else the tokenizer's length."""


class Table(Strict):
    """A typed table for text classification: one text column tokenized, an optional label."""

    text: str | None = None
    """Column that is tokenized; null: none."""
    label: str | None = None
    """Column that becomes the integer ``labels``: text by its index in ``allowed``, or an integer."""
    max_tokens: Annotated[int, Is(ge=2)] = 512
    """Longer texts are cut, and flagged."""


class Tokens(Strict):
    """Rows that are tokenized already."""

    input_ids: str = "input_ids"
    labels: str | None = "labels"
    attention_mask: str | None = None
    max_tokens: Annotated[int, Is(ge=2)] | None = None
    ignore_index: int = -100
    """Label that the loss ignores; it is written as -100."""
    causal_shift: bool = True
    """Whether labels are shifted by one in the loss, so that the first position is never trained."""
    bos: Annotated[int, Is(ge=0)] | None = None
    """Id of the start token, where each row must have exactly one."""
    end_of_turn: Annotated[int, Is(ge=0)] | None = None
    """Id of the end-of-turn token, which must be supervised wherever it ends a supervised stretch."""


class Quarantine(Strict):
    """How much may be set aside before nothing is published."""

    max_rate: Annotated[float, Is(ge=0, le=1)] = 0.5
    """Largest share of the records read."""


class Output(Strict):
    """Size of the shards: row counts decide where a shard ends, with a ceiling in bytes."""

    shard_rows: Annotated[int, Is(gt=0)] = 100_000
    shard_bytes: Annotated[int, Is(gt=0, lt=2**31)] = 2**30
    """Most bytes of one shard; a single row that is larger has a shard of its own."""
    batch_rows: Annotated[int, Is(gt=0)] = 1_000
    keep_record: bool = False
    """Whether the judged record (words and boxes, or turns) is kept as JSON in the column ``record``."""


class Split(Strict):
    """Splits by the hash of a key: stable when rows are added, never by shuffling."""

    key: str
    """Column of ``columns`` hashed, or ``content`` for the record's own text."""
    shares: Annotated[dict[str, float], Is(min_length=1)]
    """Share of each split, e.g. ``{train: 0.9, eval: 0.1}``; they add up to 1."""
    salt: str = ""

    @field_validator("shares")
    @classmethod
    def _whole(cls, shares: dict[str, float]) -> dict[str, float]:
        if abs(sum(shares.values()) - 1) > 1e-9 or min(shares.values()) < 0:
            raise ValueError("shares must be positive and add up to 1")
        return shares


class Schema(Strict):
    """One schema file: which files it claims, how their records are read, judged and encoded."""

    # What all kinds share. Each kind's own model adds its section, and null for the sections of the others: digests
    # bind the dumped model, absent sections included.

    version: Literal[1]
    name: Annotated[str, Is(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=60)]
    """Name of the data set in the output folder."""
    kind: Literal["layout", "chat", "table", "tokens"]
    description: str = ""
    files: Annotated[tuple[str, ...], Is(min_length=1)]
    """Patterns under the raw folder (``**`` for any depth)."""
    ignore: tuple[str, ...] = ()
    """Patterns of files that are not read and get no note."""
    read: Read = Read()
    columns: dict[str, Column] = {}
    tokenizer: Tokenizer | None = None
    model: Model = Model()
    policies: dict[str, Literal["quarantine", "repair", "flag"]] = {}
    """Policy by reason, where you want another than the default and the reason allows it."""
    split: Split | None = None
    quarantine: Quarantine = Quarantine()
    output: Output = Output()

    @property
    def label_column(self) -> str | None:
        """The column that a table declares as its label."""
        return None

    @model_validator(mode="after")
    def _names(self) -> Schema:
        if faults := reserved(self.columns, self.kind, self.label_column):
            raise ValueError(
                f"{'; '.join(faults)}: give another name under `columns` and set `column:` to the header"
            )
        return self

    @field_validator("policies")
    @classmethod
    def _known(cls, policies: dict[str, str]) -> dict[str, str]:
        for slug, policy in policies.items():
            try:
                facts = Reason.of(slug).facts
            except KeyError:
                raise ValueError(
                    f"unknown reason {slug!r}; `python -m pipeline reasons` lists them"
                ) from None
            allowed = {facts.default, *facts.options}
            if facts.scope is not Scope.RECORD or Policy(policy) not in allowed:
                raise ValueError(f"{slug} cannot be {policy!r}; it can be {sorted(p.value for p in allowed)}")
        return policies

    def policy(self, reason: Reason) -> Policy:
        """What becomes of a record with this finding."""
        chosen = self.policies.get(reason.slug)
        return Policy(chosen) if chosen else reason.facts.default

    @property
    def template_file(self) -> str | None:
        """File with a chat template that the kind's section names, relative to the schema file."""
        return None


class LayoutSchema(Schema):
    """A schema of documents with one box a word."""

    kind: Literal["layout"]
    layout: Layout
    chat: None = None
    table: None = None
    tokens: None = None
    tokenizer: Tokenizer


class ChatSchema(Schema):
    """A schema of conversations."""

    kind: Literal["chat"]
    layout: None = None
    chat: Chat
    table: None = None
    tokens: None = None
    tokenizer: Tokenizer

    @property
    def template_file(self) -> str | None:
        return self.chat.template.file


class TableSchema(Schema):
    """A schema of typed tables."""

    kind: Literal["table"]
    layout: None = None
    chat: None = None
    table: Table
    tokens: None = None

    @property
    def label_column(self) -> str | None:
        return self.table.label


class TokensSchema(Schema):
    """A schema of rows that are tokenized already. The section may be left out: its defaults then hold."""

    kind: Literal["tokens"]
    layout: None = None
    chat: None = None
    table: None = None
    tokens: Tokens = Tokens()

    @field_serializer("tokens", mode="wrap")
    def _left_out_as_null(self, tokens: Tokens, dump: SerializerFunctionWrapHandler) -> Any:
        """A section left out is dumped as null: digests bind what was written."""
        return dump(tokens) if "tokens" in self.model_fields_set else None


class SchemaOfNoKind(Schema):
    """What is checked where ``kind`` is missing or none: never valid, but every other mistake is found as well."""

    layout: Layout | None = None
    chat: Chat | None = None
    table: Table | None = None
    tokens: Tokens | None = None


AnySchema = Annotated[LayoutSchema | ChatSchema | TableSchema | TokensSchema, Is(discriminator="kind")]
"""A schema of any kind, told apart by ``kind``."""

KINDS: dict[str, type[Schema]] = {
    "layout": LayoutSchema,
    "chat": ChatSchema,
    "table": TableSchema,
    "tokens": TokensSchema,
}
"""The model of each kind, by the name that stands in ``kind``."""


def schema_of(data: Any) -> Schema:
    """The schema of parsed YAML or JSON. The model is chosen by ``kind`` before anything is checked, so that each
    mistake is placed as it stands in the file, and an unknown kind hides no other mistake.

    Raises:
        pydantic.ValidationError: it is no schema.
    """
    model: type[Schema] = SchemaOfNoKind
    if isinstance(data, Mapping):
        model = KINDS.get(str(data.get("kind")), SchemaOfNoKind)
        # A section that is null is one that is left out; so the dump of a schema gives the same schema again.
        data = {key: value for key, value in data.items() if key not in KINDS or value is not None}
    # By way of JSON: there the strict models take a list where Python code says a tuple.
    return model.model_validate_json(json.dumps(data))


def schema_from_json(text: str) -> Schema:
    """The schema that ``Schema.model_dump_json`` wrote.

    Raises:
        pydantic.ValidationError: it is no schema.
    """
    return schema_of(json.loads(text))
