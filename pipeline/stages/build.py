"""The line of one schema: its stages in order, built once a process, before any record is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.batch import EncodeStage, RecordStage
from pipeline.errors import SchemaError
from pipeline.schema.fields import fields_of
from pipeline.schema.load import LoadedSchema
from pipeline.schema.model import Schema
from pipeline.stages.cast import Cast
from pipeline.stages.certify import Certify
from pipeline.stages.context import Context
from pipeline.stages.judge import Judge
from pipeline.stages.kind import Finish, Kind
from pipeline.stages.sample_columns import CONTENT

if TYPE_CHECKING:
    from pipeline.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages a batch goes through.

    Attributes:
        context: what they were built from.
        records: stages over records, in order: cast, judge, the kind's own. None drops a record.
        encode: makes samples of the good records.
        certify: judges the samples.
        shard: Arrow schema of the samples.
        pages: Arrow schema of the page images, None without images.
        labels: names of the label ids, in order.
        template: text of the chat template, None without one.
        finish: the last step over certified samples of one split.
        refers: sha256 of each other file that the records of the partition in work named, by its path in the raw
            folder.
    """

    context: Context[Schema]
    records: tuple[RecordStage, ...]
    judge: Judge
    encode: EncodeStage
    certify: Certify
    shard: pa.Schema
    pages: pa.Schema | None
    labels: tuple[str, ...]
    template: str | None
    finish: Finish
    refers: dict[str, str]

    def start(self) -> None:
        """Begin a partition: stages forget which files the records of the one before named."""
        self.refers.clear()


def build_stages(loaded: LoadedSchema, raw: Path) -> Stages:
    """The line of a schema.

    Raises:
        SchemaError, TokenizerError: something the schema names is not there or does not fit together.
    """
    schema = loaded.schema
    kind = kind_of(schema)
    kind.check(schema)
    labels = kind.label_names(schema)
    context = _context(loaded, raw, labels)
    judge = Judge(schema)
    own = kind.stages(context)
    shard = own.shard.append(CONTENT)
    _each_once(shard, loaded)
    return Stages(
        context=context,
        records=(Cast(schema, context.fields), judge, *own.records),
        judge=judge,
        encode=own.encode,
        certify=Certify(context, kind.sample_rules(schema)),
        shard=shard,
        pages=own.pages,
        labels=labels,
        template=own.template,
        finish=own.finish,
        refers=own.refers,
    )


def _each_once(shard: pa.Schema, loaded: LoadedSchema) -> None:
    """Refuse a column of the schema that is called as one of the samples' own."""
    if twice := sorted({name for name in shard.names if shard.names.count(name) > 1}):
        raise SchemaError(
            "a column has the name of one that every sample has",
            where=str(loaded.path),
            found=", ".join(twice),
            remedy="give the column another name under `columns`, and set `column:` to its header",
        )


def _context(loaded: LoadedSchema, raw: Path, labels: tuple[str, ...]) -> Context[Schema]:
    """What the stages are built from: tokenizer loaded, limits of the model known."""
    from pipeline.models.families import limits_for

    schema = loaded.schema
    tokenizer = _tokenizer(loaded)
    fields = fields_of(schema)
    own = {field.name: field for field in fields if not field.name.startswith("@")}
    return Context(
        schema=schema,
        schema_dir=loaded.folder,
        raw=raw,
        fields=fields,
        columns=[pa.field(name, field.type.arrow()) for name, field in own.items()],
        tokenizer=tokenizer,
        limits=limits_for(
            schema.model,
            loaded.folder,
            tokenizer.size if tokenizer else None,
            tokenizer.pad_id if tokenizer else None,
            len(labels) or None,
        ),
    )


def _tokenizer(loaded: LoadedSchema) -> Tokenizer | None:
    if loaded.schema.tokenizer is None:
        return None
    from pipeline.models.tokenizer import load

    return load(loaded.schema.tokenizer, loaded.folder)


def _layout() -> Kind[Any]:
    from pipeline.stages.layout.stage import LayoutKind

    return LayoutKind()


def _chat() -> Kind[Any]:
    from pipeline.stages.chat.stage import ChatKind

    return ChatKind()


def _table() -> Kind[Any]:
    from pipeline.stages.table import TableKind

    return TableKind()


def _tokens() -> Kind[Any]:
    from pipeline.stages.pretokenized import TokensKind

    return TokensKind()


KINDS: Mapping[str, Callable[[], Kind[Any]]] = {
    "layout": _layout,
    "chat": _chat,
    "table": _table,
    "tokens": _tokens,
}
"""Each kind by its name in a schema, imported when it is first asked for."""


def kind_of(schema: Schema) -> Kind[Any]:
    """The kind of a schema."""
    return KINDS[schema.kind]()
