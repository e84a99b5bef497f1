"""What the stages of one schema are built from, resolved before any record is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from pipeline.errors import SchemaError
from pipeline.fields import Field
from pipeline.schema.model import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.models.families import Limits
    from pipeline.models.tokenizer import Tokenizer

S = TypeVar("S", bound=Schema, covariant=True)


@dataclass(frozen=True, slots=True)
class Context(Generic[S]):
    """Everything a stage may need to know, of a schema of its own kind.

    Attributes:
        schema, schema_dir: the schema and the folder its relative paths start from.
        raw: the raw folder; nothing outside it is opened.
        fields: what a record is read into.
        columns: Arrow fields of the schema's own columns, carried into the shards.
        tokenizer: the schema's tokenizer, None without one.
        limits: of the target model.
    """

    schema: S
    schema_dir: Path
    raw: Path
    fields: tuple[Field, ...]
    columns: list[pa.Field] = field(default_factory=list)
    tokenizer: Tokenizer | None = None
    limits: Limits = field(kw_only=True)

    def needed_tokenizer(self) -> Tokenizer:
        """The tokenizer, for stages that make or judge tokens.

        Raises:
            SchemaError: the schema has none.
        """
        if self.tokenizer is None:
            raise SchemaError(
                "the schema has no tokenizer",
                where="tokenizer",
                expected="a tokenizer that makes the tokens",
                remedy="give `tokenizer: {path: …}`",
            )
        return self.tokenizer
