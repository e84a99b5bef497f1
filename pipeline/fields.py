"""What is read of a record: the fields a schema names, each with its path and type.

A schema is compiled to a tuple of ``Field``; the reader and the cast stage know nothing else of it. After the
cast, ``Batch.frame`` has one column a field, named ``field.name``, of exactly ``field.type.dtype()``.
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
    """The kinds of value a field can hold, and the frame column each becomes."""

    TEXT = "text"  # String
    INTEGER = "integer"  # Int64
    NUMBER = "number"  # Float64, always finite
    BOOLEAN = "boolean"  # Boolean
    DATE = "date"  # String, ISO 8601 "2024-01-31"
    DATETIME = "datetime"  # String, ISO 8601 "2024-01-31T09:30:00"
    LIST = "list"  # List(item)
    STRUCT = "struct"  # Struct(fields)
    JSON = "json"  # String holding one JSON value, as written
    WORDS = "words"  # List(String)
    BOXES = "boxes"  # List(List(Float64)), one inner list a word: numbers as written, vertices flattened
    LABELS = "labels"  # List(String) of names as written, or List(Int64) of ids: see FieldType.ids
    TOKENS = "tokens"  # List(Int64)
    MESSAGES = "messages"  # List(MESSAGE), turns as written, judged by the chat stage


class Content(StrEnum):
    """What stood where a turn's text should stand (``MESSAGE.content_kind``)."""

    TEXT = "text"  # content holds the text
    MISSING = "missing"  # no such key; content is null
    NULL = "null"  # content is null
    NUMBER = "number"  # content holds the number as written
    BOOLEAN = "boolean"  # content holds "true" or "false"
    PARTS = "parts"  # content holds the JSON list as written
    OBJECT = "object"  # content holds the JSON object as written


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field; ``item`` for lists, ``fields`` for structs, ``ids`` for labels given as numbers."""

    kind: Kind
    item: FieldType | None = None
    fields: tuple[tuple[str, FieldType], ...] = ()
    optional: bool = False  # of a struct member: may be absent or null
    ids: bool = False

    def dtype(self) -> pl.DataType:
        """The polars type the cast stage must deliver."""
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
        """The Arrow type of this field as a column of a shard (columns of a schema only)."""
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
    """One turn as read.

    ``role`` as written (null when it is no text); ``content`` and ``content_kind`` see ``Content``;
    ``tool_calls`` the JSON list as written; ``train`` and ``weight`` null when the turn does not say.
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
        path: where it is read. A plain text is a column header or top-level key, taken literally;
            ``$.page.width`` is a JSON path, ``$.lines[].text`` one value an element (the field is then a list).
            Several paths, for ``boxes`` only: one column a coordinate.
        type: what it must be.
        required: whether a missing key, column, null or blank cell is a finding (``missing``).
        missing, wrong: the reasons given for a missing value and for one of another type.
        grouped: within a row-per-word table, whether the values of a group become a list (words, boxes, labels)
            or must agree (page size, image, id).
        message_keys: for messages, the names that mean role, content … in this source, in order of preference.
        text_turn: for messages, whether a plain text stands for one turn without a role (prompt, completion).
    """

    name: str
    path: str | tuple[str, ...]
    type: FieldType
    required: bool = True
    missing: Reason = Reason.VALUE_MISSING
    wrong: Reason = Reason.VALUE_TYPE
    grouped: bool = False
    decimal: str = "."
    as_shown: bool = False  # a number or boolean where text should be is taken as it stands in the source
    message_keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    text_turn: bool = False

    @property
    def shown(self) -> str:
        """The name a user knows it by: their own column, or the place it is read from."""
        if not self.name.startswith("@"):
            return self.name
        return self.path if isinstance(self.path, str) else ", ".join(self.path)
