"""The Arrow schemas of shards: one per kind. All shards of a data set have the same schema, whatever their rows hold.

This module imports pyarrow only, because a training node uses the same schemas.
"""

from __future__ import annotations

import pyarrow as pa

IDS = pa.list_(pa.int32())
MASK = pa.list_(pa.int8())
IGNORE = -100
"""Label of a token that the loss ignores."""

PROVENANCE = (
    pa.field("sample_id", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("sheet", pa.string()),
    pa.field("row", pa.int64(), nullable=False),
    pa.field("notes", pa.list_(pa.string()), nullable=False),
)
"""The origin of a sample. ``sample_id`` is ``source#row`` or ``source#sheet#row``, and a window adds ``#w``; ``row`` is
the physical row or line; ``notes`` holds the slugs of repairs and flags."""


def layout(
    columns: list[pa.Field],
    *,
    float_boxes: bool,
    labels: bool,
    image: bool,
    record: bool,
    page_label: bool = False,
    answer: bool = False,
) -> pa.Schema:
    """Samples of a document data set, one per window, unpadded.

    ``bbox`` holds four numbers per token, xyxy: int16 0–1000, or float32 0–1 for families that take floats.
    ``word_ids`` holds the index of each token's word among the words of the record as read, -1 for special tokens.
    ``page_id`` is the key of the page image in the pages data set. With one label per page, ``labels`` is one int64 per
    window. ``start_positions`` and ``end_positions`` are the first and last token of the answer in the window, both 0
    for a window without the answer.
    """
    number = pa.float32() if float_boxes else pa.int16()
    fields = [
        *PROVENANCE,
        *columns,
        pa.field("input_ids", IDS, nullable=False),
        pa.field("attention_mask", MASK, nullable=False),
        pa.field("bbox", pa.list_(pa.list_(pa.field("item", number, nullable=False), 4)), nullable=False),
        pa.field("word_ids", IDS, nullable=False),
        pa.field("window", pa.int32(), nullable=False),
        pa.field("windows", pa.int32(), nullable=False),
    ]
    if labels:
        fields.append(pa.field("labels", IDS, nullable=False))
    if page_label:
        fields.append(pa.field("labels", pa.int64(), nullable=False))
    if answer:
        fields += [pa.field(f"{end}_positions", pa.int32(), nullable=False) for end in ("start", "end")]
    if image:
        fields.append(pa.field("page_id", pa.string()))
    return pa.schema([*fields, *_record(record)])


def pages(side: int = 224, channels: int = 3) -> pa.Schema:
    """Page images, one per page. ``pixels`` is uint8 [channels · side · side], channel first, in the family's channel
    order; ``page_id`` is the first 20 hexadecimal digits of the sha256 of those bytes."""
    pixels = pa.list_(pa.field("item", pa.uint8(), nullable=False), channels * side * side)
    return pa.schema(
        [
            pa.field("page_id", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("image", pa.string(), nullable=False),
            pa.field("pixels", pixels, nullable=False),
        ]
    )


def chat(
    columns: list[pa.Field], *, record: bool, packed: bool = False, preference: bool = False
) -> pa.Schema:
    """Samples of a chat data set, unpadded.

    ``turns`` holds the role and the token span [start, end) of each turn; ``tokens_dropped`` is the number of tokens
    cut to fit the limit. A packed sample has ``position_ids`` that restart at each conversation, and ``samples`` with
    the sample ids inside. A preference sample holds the rejected answer in ``rejected_input_ids`` and
    ``rejected_labels``.
    """
    turn = pa.struct(
        [
            pa.field("role", pa.string(), nullable=False),
            pa.field("start", pa.int32(), nullable=False),
            pa.field("end", pa.int32(), nullable=False),
        ]
    )
    fields = [
        *PROVENANCE,
        *columns,
        pa.field("input_ids", IDS, nullable=False),
        pa.field("attention_mask", MASK, nullable=False),
        pa.field("labels", IDS, nullable=False),
        pa.field("turns", pa.list_(turn), nullable=False),
        pa.field("tokens_dropped", pa.int32(), nullable=False),
    ]
    if packed:
        fields += [
            pa.field("position_ids", IDS, nullable=False),
            pa.field("samples", pa.list_(pa.string()), nullable=False),
        ]
    if preference:
        fields += [pa.field(n, IDS, nullable=False) for n in ("rejected_input_ids", "rejected_labels")]
    return pa.schema([*fields, *_record(record)])


def table(columns: list[pa.Field], *, tokenized: bool, label: bool) -> pa.Schema:
    """Samples of a table: its typed columns, ``input_ids`` and ``attention_mask`` of the text column, and ``labels``,
    one int64 per row."""
    fields = [*PROVENANCE, *columns]
    if tokenized:
        fields += [
            pa.field("input_ids", IDS, nullable=False),
            pa.field("attention_mask", MASK, nullable=False),
        ]
    if label:
        fields.append(pa.field("labels", pa.int64(), nullable=False))
    return pa.schema(fields)


def tokens(columns: list[pa.Field], *, labels: bool) -> pa.Schema:
    """Samples of rows that were tokenized before this program reads them."""
    fields = [
        *PROVENANCE,
        *columns,
        pa.field("input_ids", IDS, nullable=False),
        pa.field("attention_mask", MASK, nullable=False),
    ]
    if labels:
        fields.append(pa.field("labels", IDS, nullable=False))
    return pa.schema(fields)


def quarantine() -> pa.Schema:
    """Quarantined records, each once, with all its reasons.

    ``cells`` is a JSON object of the original cells (header → cell as read), ``raw`` holds the bytes as in the file; at
    least one of them is set. Text that Arrow cannot hold is escaped as in JSON (``\\ud83d``).
    """
    reason = pa.struct(
        [
            pa.field("reason", pa.string(), nullable=False),
            pa.field("column", pa.string(), nullable=False),
            pa.field("path", pa.string(), nullable=False),
            pa.field("found", pa.string(), nullable=False),
            pa.field("expected", pa.string(), nullable=False),
        ]
    )
    return pa.schema(
        [
            pa.field("source", pa.string(), nullable=False),
            pa.field("sheet", pa.string()),
            pa.field("row", pa.int64(), nullable=False),
            pa.field("reasons", pa.list_(reason), nullable=False),
            pa.field("cells", pa.string()),
            pa.field("raw", pa.binary()),
        ]
    )


def _record(keep: bool) -> list[pa.Field]:
    return [pa.field("record", pa.string())] if keep else []
