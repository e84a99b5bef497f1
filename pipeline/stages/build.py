"""The line of one schema: its stages in order, built once a process, before any record is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.batch import EncodeStage, RecordStage
from pipeline.errors import SchemaError
from pipeline.schema.fields import fields_of
from pipeline.schema.load import LoadedSchema
from pipeline.schema.model import Schema
from pipeline.stages.cast import Cast
from pipeline.stages.certify import Certify
from pipeline.stages.context import Context
from pipeline.stages.judge import Judge
from pipeline.stages.sample_columns import CONTENT

if TYPE_CHECKING:
    import pyarrow as pa

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
    """

    context: Context
    records: tuple[RecordStage, ...]
    judge: Judge
    encode: EncodeStage
    certify: Certify
    shard: pa.Schema
    pages: pa.Schema | None

    def start(self) -> None:
        """Begin a partition: stages forget which files the records of the one before named."""
        for stage in self._referring():
            stage.refers.clear()

    def refers(self) -> dict[str, str]:
        """sha256 of each other file that the records of this partition named, by its path in the raw folder."""
        return {name: digest for stage in self._referring() for name, digest in stage.refers.items()}

    def _referring(self) -> list[Any]:
        """Stages that read files which records name: they keep ``refers: dict[str, str]``."""
        return [stage for stage in (*self.records, self.encode) if hasattr(stage, "refers")]


def build_stages(loaded: LoadedSchema, raw: Path) -> Stages:
    """The line of a schema.

    Raises:
        SchemaError, TokenizerError: something the schema names is not there or does not fit together.
    """
    context = context_of(loaded, raw)
    kind = _kind(loaded.schema)
    judge = Judge(loaded.schema)
    records = (Cast(loaded.schema, context.fields), judge, *kind.record_stages(context))
    pages = getattr(kind, "pages_schema", None)
    shard = kind.shard_schema(context).append(CONTENT)
    _each_once(shard, loaded)
    return Stages(
        context,
        records,
        judge,
        kind.encoder(context),
        Certify(context),
        shard,
        pages(context) if pages else None,
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


def context_of(loaded: LoadedSchema, raw: Path) -> Context:
    """What the stages are built from: tokenizer loaded, limits of the model known."""
    import pyarrow as pa

    from pipeline.models.families import limits_for

    schema = loaded.schema
    if schema.kind == "table":
        from pipeline.stages.table import check

        check(schema)
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
            schema.model, loaded.folder, tokenizer.size if tokenizer else None,
            tokenizer.pad_id if tokenizer else None, len(label_names(schema)) or None,
        ),
    )  # fmt: skip


def label_names(schema: Schema) -> tuple[str, ...]:
    """Names of the label ids in order: what a model's ``id2label`` must say."""
    if schema.layout is not None:
        labels = schema.layout.labels or schema.layout.page_label
        return labels.names if labels is not None else ()
    if schema.kind == "table":
        from pipeline.stages import table

        return table.label_names(schema)
    return ()


def _tokenizer(loaded: LoadedSchema) -> Tokenizer | None:
    if loaded.schema.tokenizer is None:
        return None
    from pipeline.models.tokenizer import load

    return load(loaded.schema.tokenizer, loaded.folder)


def _kind(schema: Schema) -> Any:
    """The module with the stages of the schema's kind."""
    match schema.kind:
        case "layout":
            from pipeline.stages.layout import stage as layout

            return layout
        case "chat":
            from pipeline.stages.chat import stage as chat

            return chat
        case "table":
            from pipeline.stages import table

            return table
        case _:
            from pipeline.stages import pretokenized as tokens

            return tokens
