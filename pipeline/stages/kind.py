"""The seam of the kinds: what a kind of record gives to the stages that all records go through.

Each kind implements ``Kind`` once, in its ``stage.py``; ``stages/build.py`` has the table. Nothing outside asks which
kind a schema is of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import pyarrow as pa

from pipeline.batch import EncodeStage, RecordStage, Samples
from pipeline.schema.model import Schema
from pipeline.stages.context import Context

S = TypeVar("S", bound=Schema, contravariant=True)
"""The kind's own schema."""

Finish = Callable[[Samples], Samples]
"""The last step over certified samples of one batch and one split."""

Contents = Callable[[pa.RecordBatch], pa.RecordBatch]
"""``row`` and ``content_id`` of each record in a batch of a shard."""


@dataclass(frozen=True, slots=True)
class SampleRules:
    """What the last look asks of a kind's samples, beside the limits of the model.

    Attributes:
        least_tokens: fewest tokens of a sample. A causal model shifts labels by one: a single token has nothing to
            predict.
        labels_are_tokens: whether a label a token is a token id; else a class.
        labels_copy_tokens: whether each label that is learned is the id of its own token.
        causal_shift: whether the first label of a sample is never learned, because labels are shifted in the loss.
    """

    least_tokens: int = 2
    labels_are_tokens: bool = True
    labels_copy_tokens: bool = False
    causal_shift: bool = True


def as_they_are(samples: Samples) -> Samples:
    """The last step of kinds that have none."""
    return samples


def one_a_sample(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``row`` and ``content_id`` of kinds whose samples each are of one record."""
    return batch.select(["row", "content_id"])


@dataclass(frozen=True, slots=True)
class KindStages:
    """The kind's part of a line, built once for a schema.

    Attributes:
        records: stages over records, after cast and judge.
        encode: makes samples of the good records.
        shard: Arrow schema of the samples, as ``encode`` makes them.
        pages: Arrow schema of the page images, None where the schema reads none.
        template: text of the chat template, None where nothing is rendered.
        finish: the last step over certified samples, after they are split.
        refers: sha256 of each other file that the records of the partition in work name, by its path in the raw
            folder; "" where there is none. The stages fill it, and the line empties it before each partition.
    """

    records: tuple[RecordStage, ...]
    encode: EncodeStage
    shard: pa.Schema
    pages: pa.Schema | None = None
    template: str | None = None
    finish: Finish = as_they_are
    refers: dict[str, str] = field(default_factory=dict)


class Kind(Protocol[S]):
    """A kind of record."""

    def check(self, schema: S) -> None:
        """Look at what the sections say of each other, before a tokenizer is loaded.

        Raises:
            SchemaError: something does not fit together.
        """

    def label_names(self, schema: S) -> tuple[str, ...]:
        """Names of the label ids in order: what a model's ``id2label`` must say. Empty where labels have no names."""

    def sample_rules(self, schema: S) -> SampleRules:
        """What the last look asks of the samples."""

    def stages(self, context: Context[S]) -> KindStages:
        """The stages of one schema.

        Raises:
            SchemaError, TokenizerError: something the schema names does not fit.
        """

    def contents(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``row`` (int64) and ``content_id`` (string) of each record in a batch of a shard; windows of one record may
        come more than once."""
