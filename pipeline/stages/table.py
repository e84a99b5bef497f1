"""Tables: the label becomes an id, the text column tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.arrow_lists import lists, owners, within
from pipeline.batch import Batch, Findings, Int64s, Samples
from pipeline.errors import SchemaError
from pipeline.models.tokenizer_engines import Int32s
from pipeline.reasons import Reason
from pipeline.schema.model import TableSchema
from pipeline.shards import schemas
from pipeline.stages.context import Context
from pipeline.stages.kind import KindStages, SampleRules, one_a_sample
from pipeline.stages.sample_columns import carried, provenance

LABEL = "@label"


@dataclass(slots=True)
class LabelIds:
    """The label column as ids: the place in ``allowed``, or the integer itself, never negative."""

    context: Context[TableSchema]
    name: str = "label"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        table = self.context.schema.table
        if table.label is None:
            return batch, findings
        column = batch.frame[table.label]
        if names := label_names(self.context.schema):
            ids = column.replace_strict(names, list(range(len(names))), default=None, return_dtype=pl.Int64)
        else:
            ids = column
            hits = np.flatnonzero((column < 0).fill_null(False).to_numpy())
            findings.add(
                Reason.LABEL_OUT_OF_RANGE,
                self.context.schema.policy(Reason.LABEL_OUT_OF_RANGE),
                table.label,
                batch.ids[hits],
                found=[str(v) for v in column[pl.Series(hits)]],
                expected="0 or more",
            )
        return batch.with_frame(batch.frame.with_columns(ids.alias(LABEL))), findings


@dataclass(slots=True)
class Encode:
    """Tokens of the text column, with the tokenizer's own special tokens, cut to the limit and flagged; under the Arrow
    schema ``shard``."""

    context: Context[TableSchema]
    shard: pa.Schema
    name: str = "encode"

    def __call__(self, batch: Batch) -> tuple[Samples, Findings]:
        schema, findings = self.context.schema, Findings()
        table = schema.table
        every = np.arange(len(batch), dtype=np.int64)
        columns = carried(batch, every, self.context.columns)
        if table.text is not None:
            columns |= self._tokens(batch, table.text, table.max_tokens, findings)
        if table.label is not None:
            columns["labels"] = pa.array(batch.frame[LABEL].to_numpy(), pa.int64())
        columns |= provenance(batch, every, findings)
        made = pa.table([columns[f.name] for f in self.shard], schema=self.shard)
        return Samples(made, batch.ids), findings

    def _tokens(self, batch: Batch, text: str, limit: int, findings: Findings) -> dict[str, pa.Array]:
        tokenizer, limits = self.context.needed_tokenizer(), self.context.limits
        if limits.max_tokens is not None:
            limit = min(limit, limits.max_tokens)
        ids, lengths = tokenizer.encode(batch.frame[text].to_list())
        before, after = tokenizer.affixes
        room = limit - len(before) - len(after)
        kept = np.minimum(lengths, room)
        cut = np.flatnonzero(kept < lengths)
        findings.add(
            Reason.SEQUENCE_TOO_LONG,
            self.context.schema.policy(Reason.SEQUENCE_TOO_LONG),
            text,
            batch.ids[cut],
            found=[str(int(n)) for n in lengths[cut]],
            expected=str(room),
        )
        ids = ids[within(lengths) < np.repeat(kept, lengths)]
        return _framed(ids, kept, before, after)


def _framed(ids: Int32s, lengths: Int64s, before: Int32s, after: Int32s) -> dict[str, pa.Array]:
    """``input_ids`` and ``attention_mask`` of flat ids with special tokens around each text."""
    whole = lengths + len(before) + len(after)
    out = np.empty(int(whole.sum()), np.int32)
    place, owner = within(whole), owners(whole)
    head, tail = place < len(before), place >= (lengths + len(before))[owner]
    out[~(head | tail)] = ids
    out[head] = np.tile(before, len(lengths))
    out[tail] = np.tile(after, len(lengths))
    return {
        "input_ids": lists(out, whole, schemas.IDS),
        "attention_mask": lists(np.ones(len(out), np.int8), whole, schemas.MASK),
    }


class TableKind:
    """Typed tables, as a ``Kind``."""

    def check(self, schema: TableSchema) -> None:
        """The section names columns that exist and can serve."""
        _check(schema)

    def label_names(self, schema: TableSchema) -> tuple[str, ...]:
        """Names of the label ids, in order; empty where labels are integers or there are none."""
        return label_names(schema)

    def sample_rules(self, schema: TableSchema) -> SampleRules:
        """A text of one token has a class, too."""
        return SampleRules(least_tokens=1)

    def stages(self, context: Context[TableSchema]) -> KindStages:
        """The label as an id, the text as tokens."""
        shard = _shard_schema(context)
        return KindStages((LabelIds(context),), Encode(context, shard), shard)

    def contents(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One record a sample."""
        return one_a_sample(batch)


def _shard_schema(context: Context[TableSchema]) -> pa.Schema:
    """Arrow schema of this table's shards. A label column that is itself called ``labels`` stands there as ids."""
    table = context.schema.table
    columns = [field for field in context.columns if not field.name == "labels" == table.label]
    return schemas.table(columns, tokenized=table.text is not None, label=table.label is not None)


def label_names(schema: TableSchema) -> tuple[str, ...]:
    """Names of the label ids, in order; empty when labels are integers or there are none."""
    table = schema.table
    if table.label is None or schema.columns[table.label].type != "text":
        return ()
    return tuple(str(name) for name in schema.columns[table.label].allowed or ())


def _check(schema: TableSchema) -> None:
    """Whether the section names columns that exist and can serve.

    Raises:
        SchemaError: it does not.
    """
    table = schema.table
    for key, name in (("text", table.text), ("label", table.label)):
        if name is not None and name not in schema.columns:
            raise SchemaError(
                f"`table.{key}` names no column of `columns`", found=name, expected=", ".join(schema.columns)
            )
    if table.text is not None and schema.columns[table.text].type != "text":
        raise SchemaError("`table.text` must be a text column", found=schema.columns[table.text].type)
    if table.text is not None and schema.tokenizer is None:
        raise SchemaError("`table.text` is tokenized: the schema needs a `tokenizer`")
    if table.label is not None:
        column = schema.columns[table.label]
        if column.type not in ("text", "integer") or (column.type == "text" and not column.allowed):
            raise SchemaError("`table.label` must be an integer column, or a text column with `allowed`")
