"""The fields of a record: which values of a record are read, each with its path and type.

``pipeline.schema.fields`` makes a tuple of ``Field`` from a schema. Readers and the cast stage use only these fields.
After the cast, ``Batch.frame`` has one column per field, named ``field.name``, of the type ``field.type.dtype()``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pipeline.reasons import Reason

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


class Kind(StrEnum):
    """The kinds of values of a field, each with the type of its frame column."""

    TEXT = "text"  # String
    INTEGER = "integer"  # Int64
    NUMBER = "number"  # Float64, always finite
    BOOLEAN = "boolean"  # Boolean
    DATE = "date"  # String, ISO 8601 "2024-01-31"
    DATETIME = "datetime"  # String, ISO 8601 "2024-01-31T09:30:00"
    LIST = "list"  # List(item)
    STRUCT = "struct"  # Struct(fields)
    JSON = "json"  # String that holds one JSON value, as written
    WORDS = "words"  # List(String)
    BOXES = "boxes"  # List(List(Float64)), one inner list per word: numbers as written, vertices flattened
    LABELS = "labels"  # List(String) of names as written, or List(Int64) of ids (see FieldType.ids)
    TOKENS = "tokens"  # List(Int64)
    MESSAGES = "messages"  # List(message_dtype()), turns as written; the chat stage judges them


class Content(StrEnum):
    """The JSON kind of a turn's content (``content_kind`` of ``message_dtype``)."""

    TEXT = "text"  # content holds the text
    MISSING = "missing"  # the key is missing; content is null
    NULL = "null"  # content is null
    NUMBER = "number"  # content holds the number as written
    BOOLEAN = "boolean"  # content holds "true" or "false"
    PARTS = "parts"  # content holds the JSON list as written
    OBJECT = "object"  # content holds the JSON object as written


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field.

    Attributes:
        kind: the kind of its values.
        item: type of the elements of a list.
        fields: name and type of each member of a struct.
        optional: whether a struct member may be missing or null.
        ids: whether labels are given as numbers.
    """

    kind: Kind
    item: FieldType | None = None
    fields: tuple[tuple[str, FieldType], ...] = ()
    optional: bool = False
    ids: bool = False

    def dtype(self) -> pl.DataType:
        """The polars type of the field's frame column after the cast."""
        import polars as pl

        match self.kind:
            case Kind.INTEGER:
                return pl.Int64()
            case Kind.NUMBER:
                return pl.Float64()
            case Kind.BOOLEAN:
                return pl.Boolean()
            case Kind.LIST:
                assert self.item is not None  # noqa: S101
                return pl.List(self.item.dtype())
            case Kind.STRUCT:
                return pl.Struct({name: type_.dtype() for name, type_ in self.fields})
            case Kind.WORDS:
                return pl.List(pl.String())
            case Kind.BOXES:
                return pl.List(pl.List(pl.Float64()))
            case Kind.LABELS:
                return pl.List(pl.Int64() if self.ids else pl.String())
            case Kind.TOKENS:
                return pl.List(pl.Int64())
            case Kind.MESSAGES:
                return pl.List(message_dtype())
            case _:
                return pl.String()

    def arrow(self) -> pa.DataType:
        """The Arrow type of the field as a column of a shard; only for columns of a schema."""
        import pyarrow as pa

        match self.kind:
            case Kind.INTEGER:
                return pa.int64()
            case Kind.NUMBER:
                return pa.float64()
            case Kind.BOOLEAN:
                return pa.bool_()
            case Kind.LIST:
                assert self.item is not None  # noqa: S101
                return pa.list_(self.item.arrow())
            case Kind.STRUCT:
                return pa.struct([pa.field(name, type_.arrow()) for name, type_ in self.fields])
            case _:
                return pa.string()


def message_dtype() -> pl.Struct:
    """The polars type of one turn as read.

    ``role`` is the text as written, null for another JSON kind. ``Content`` describes ``content`` and ``content_kind``.
    ``tool_calls`` is the JSON list as written. ``train`` and ``weight`` are null for a turn without them.
    """
    import polars as pl

    return pl.Struct(
        {
            "role": pl.String(),
            "content": pl.String(),
            "content_kind": pl.String(),
            "name": pl.String(),
            "tool_calls": pl.String(),
            "tool_call_id": pl.String(),
            "train": pl.Boolean(),
            "weight": pl.Float64(),
        }
    )


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    Attributes:
        name: column of the frame.
        path: where the value is in a record. A plain text is a column header or top-level key, taken literally;
            ``$.page.width`` is a JSON path; ``$.lines[].text`` gives one value per element, and the field is a list.
            Several paths, for ``boxes`` only, name one column per coordinate.
        type: the required type.
        required: whether a missing key, a missing column, a null or a blank cell is a finding (``missing``).
        missing, wrong: the reasons of findings on a missing value and on a value of another type.
        grouped: in a table with one row per word, whether the values of a group become a list (words, boxes, labels)
            or must be equal (page size, image, id).
        decimal: decimal mark of numbers in text: ``.``, ``,`` or ``.,`` for either.
        as_shown: whether a number or boolean counts as text, as written in the source.
        message_keys: for messages, the keys for role, content … in this source, in order of preference.
        text_turn: for messages, whether a plain text is one turn without a role (prompt, completion).
    """

    name: str
    path: str | tuple[str, ...]
    type: FieldType
    required: bool = True
    missing: Reason = Reason.VALUE_MISSING
    wrong: Reason = Reason.VALUE_TYPE
    grouped: bool = False
    decimal: str = "."
    as_shown: bool = False
    message_keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    text_turn: bool = False

    @property
    def shown(self) -> str:
        """The name for messages to the user: their own column, or the path of the value."""
        if not self.name.startswith("@"):
            return self.name
        return self.path if isinstance(self.path, str) else ", ".join(self.path)
