"""A schema becomes the tuple of fields that readers and the cast stage work by.

Columns of the schema keep their own names. Fields a kind needs are named with a leading ``@`` (``@words``), so
that they never meet a user's column.
"""

from __future__ import annotations

from pipeline.fields import Field, FieldType, Kind
from pipeline.reasons import Reason
from pipeline.schema.chat import (
    Alpaca,
    Chat,
    Columns,
    FromColumn,
    Messages,
    Preference,
    PromptCompletion,
    Tree,
)
from pipeline.schema.columns import Column, Item
from pipeline.schema.layout import Layout, UnitField
from pipeline.schema.model import ChatSchema, LayoutSchema, Schema, Tokens, TokensSchema

ROLE_KEYS = ("role", "from")
CONTENT_KEYS = ("content", "value")
MESSAGE_KEYS = (
    ("role", ROLE_KEYS),
    ("content", CONTENT_KEYS),
    ("name", ("name",)),
    ("tool_calls", ("tool_calls",)),
    ("tool_call_id", ("tool_call_id",)),
    ("train", ("train",)),
    ("weight", ("weight", "loss_weight")),
)
"""Names that mean each part of a turn, in order of preference: OpenAI's first, then ShareGPT's."""

TEXT, NUMBER, JSON = FieldType(Kind.TEXT), FieldType(Kind.NUMBER), FieldType(Kind.JSON)
MESSAGES = FieldType(Kind.MESSAGES)


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """All fields a record of this schema is read into, in a fixed order: columns first, then the kind's own."""
    columns = [_column(name, column, schema.read.decimal) for name, column in schema.columns.items()]
    match schema:
        case LayoutSchema():
            return (*columns, *_layout(schema.layout, schema.read.decimal))
        case ChatSchema():
            return (*columns, *_chat(schema.chat))
        case TokensSchema():
            return (*columns, *_tokens(schema.tokens))
    return tuple(columns)


def field_type(item: Item | Column) -> FieldType:
    """The type of a column, list element or struct member."""
    if item.type == "list":
        assert item.items is not None  # noqa: S101 - the model proves it
        return FieldType(Kind.LIST, item=field_type(item.items), optional=not item.required)
    if item.type == "struct":
        members = tuple((name, field_type(member)) for name, member in item.fields.items())
        return FieldType(Kind.STRUCT, fields=members, optional=not item.required)
    return FieldType(Kind(item.type), optional=not item.required)


def _column(name: str, column: Column, decimal: str) -> Field:
    return Field(
        name=name,
        path=column.column or name,
        type=field_type(column),
        required=column.required,
        missing=Reason.TEXT_BLANK if column.type == "text" else Reason.VALUE_MISSING,
        decimal=decimal,
        as_shown=column.as_shown,
    )


def _layout(layout: Layout, decimal: str) -> list[Field]:
    boxes = layout.boxes
    fields = [
        Field(
            "@words",
            layout.words,
            FieldType(Kind.WORDS),
            missing=Reason.DOC_EMPTY,
            wrong=Reason.WORD_NOT_TEXT,
            grouped=True,
            as_shown=True,
        ),
        Field(
            "@boxes",
            boxes.columns or boxes.column or "",
            FieldType(Kind.BOXES),
            missing=Reason.WORDS_BOXES_MISMATCH,
            wrong=Reason.BBOX_UNPARSED,
            grouped=True,
            decimal=decimal,
        ),
    ]
    if layout.labels is not None:
        ids = layout.labels.form == "ids"
        fields.append(
            Field(
                "@labels",
                layout.labels.column,
                FieldType(Kind.LABELS, ids=ids),
                required=layout.labels.required,
                missing=Reason.WORDS_LABELS_MISMATCH,
                wrong=Reason.LABEL_NOT_INTEGER if ids else Reason.LABEL_UNKNOWN,
                grouped=True,
            )
        )
    if (label := layout.page_label) is not None:
        ids = label.form == "ids"
        kind = FieldType(Kind.INTEGER) if ids else TEXT
        wrong = Reason.LABEL_NOT_INTEGER if ids else Reason.LABEL_UNKNOWN
        fields.append(Field("@page_label", label.column, kind, wrong=wrong))
    if (question := layout.question) is not None:
        fields.append(_turn("@question", question.column))
        for name, place in (("@answer_start", question.start), ("@answer_end", question.end)):
            if place is not None:
                whole = FieldType(Kind.INTEGER)
                fields.append(Field(name, place, whole, required=False, wrong=Reason.ANSWER_INVALID))
    for name, path in (("@page_width", layout.page.width), ("@page_height", layout.page.height)):
        if isinstance(path, str):
            fields.append(_page_size(name, path, NUMBER, decimal))
    if isinstance(layout.page.box, str):
        numbers = FieldType(Kind.LIST, item=NUMBER)
        fields.append(_page_size("@page_box", layout.page.box, numbers, decimal))
    if isinstance(boxes.unit, UnitField):
        fields.append(Field("@unit", boxes.unit.column, TEXT))
    if layout.image is not None and layout.image.column is not None:
        fields.append(
            Field(
                "@image",
                layout.image.column,
                TEXT,
                required=layout.image.required,
                missing=Reason.IMAGE_MISSING,
                wrong=Reason.IMAGE_MISSING,
            )
        )
    return fields


def _page_size(name: str, path: str, type_: FieldType, decimal: str) -> Field:
    reason = Reason.PAGE_SIZE_INVALID
    return Field(name, path, type_, missing=reason, wrong=reason, decimal=decimal)


def _turn(name: str, path: str, *, required: bool = True) -> Field:
    """A field that holds the text of one turn."""
    return Field(
        name,
        path,
        TEXT,
        required=required,
        missing=Reason.CONTENT_EMPTY,
        wrong=Reason.CONTENT_NOT_TEXT,
        as_shown=True,
    )


def _turns(name: str, path: str, *, text: bool = False) -> Field:
    """A field that holds a list of turns."""
    return Field(
        name,
        path,
        MESSAGES,
        missing=Reason.CONVERSATION_EMPTY,
        wrong=Reason.VALUE_TYPE,
        message_keys=MESSAGE_KEYS,
        text_turn=text,
    )


def _chat(chat: Chat) -> list[Field]:
    source = chat.source
    match source:
        case Columns():
            fields = [_turn("@prompt", source.prompt), _turn("@answer", source.answer)]
        case Messages():
            fields = [_turns("@messages", source.column)]
            if source.tools is not None:
                fields.append(Field("@tools", source.tools, JSON, required=False))
        case Alpaca():
            fields = [_turn("@instruction", source.instruction), _turn("@output", source.output)]
            if source.input is not None:
                fields.append(_turn("@input", source.input, required=False))
            if source.history is not None:
                fields.append(Field("@history", source.history, JSON, required=False))
        case PromptCompletion():
            fields = [
                _turns("@prompt", source.prompt, text=True),
                _turns("@completion", source.completion, text=True),
            ]
        case Preference():
            fields = [_turns("@prompt", source.prompt, text=True)] if source.prompt is not None else []
            pair = (("@chosen", source.chosen), ("@rejected", source.rejected))
            fields += [_turns(name, path, text=True) for name, path in pair]
        case Tree():
            fields = [Field("@tree", source.column, JSON, missing=Reason.CONVERSATION_EMPTY)]
    system = None if isinstance(source, Tree) else source.system
    if isinstance(system, FromColumn):
        fields.append(_turn("@system", system.column, required=not system.optional))
    return fields


def _tokens(tokens: Tokens) -> list[Field]:
    ids = FieldType(Kind.TOKENS)
    fields = [Field("@input_ids", tokens.input_ids, ids)]
    if tokens.labels is not None:
        fields.append(Field("@labels", tokens.labels, ids))
    if tokens.attention_mask is not None:
        fields.append(Field("@attention_mask", tokens.attention_mask, ids, required=False))
    return fields
