"""Windows become columns: prefix, tokens with their word's box and label, end token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.arrays import lists, within
from pipeline.batch import Int64s, Mask
from pipeline.models.families import Limits
from pipeline.shards import arrow
from pipeline.stages.layout.flat_pages import FlatPages
from pipeline.stages.layout.prefix import Prefix
from pipeline.stages.layout.window import Windows

Int32s = npt.NDArray[np.int32]
Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Assembly:
    """The places of all tokens of all windows.

    Attributes:
        whole: int64 [windows], tokens of each window.
        head, body: bool [tokens], prefix tokens and page tokens; the rest are end tokens.
        prefix: place in the prefix of each head token; ``source`` token of the batch of each body token.
        word: word of the batch of each body token.
    """

    whole: Int64s
    head: Mask
    body: Mask
    prefix: Int64s
    source: Int64s
    word: Int64s

    @classmethod
    def of(cls, cut: Windows, prefix: Prefix, counts: Int64s) -> Assembly:
        """Lay the windows out; ``counts`` int64 [words] are the tokens of each word."""
        heads, head_lengths = prefix.of_windows(cut.record)
        inner = cut.end - cut.start
        whole = head_lengths + inner + 1
        place = within(whole)
        head = place < np.repeat(head_lengths, whole)
        body = ~head & (place < np.repeat(whole - 1, whole))
        source = np.repeat(cut.start, inner) + within(inner)
        return cls(whole, head, body, heads, source, np.repeat(np.arange(len(counts)), counts)[source])

    def framed(self, inside: Values, opening: Any, closing: Any) -> Values:
        """Values of body tokens between those of prefix and end: one value each, or for the prefix one a token."""
        out = np.empty((len(self.body), *inside.shape[1:]), inside.dtype)
        out[self.body] = inside
        out[self.head] = opening
        out[~(self.head | self.body)] = closing
        return out


def token_columns(
    page: FlatPages, ids: Int32s, prefix: Prefix, closing: int, laid: Assembly, limits: Limits
) -> dict[str, pa.Array]:
    """``input_ids, attention_mask, bbox`` and ``word_ids`` of each window."""
    boxes = laid.framed(page.boxes[laid.word], prefix.boxes[laid.prefix], limits.sep_box)
    number = pa.float32() if page.boxes.dtype == np.float32 else pa.int16()
    box = pa.list_(pa.list_(pa.field("item", number, nullable=False), 4))
    return {
        "input_ids": lists(
            laid.framed(ids[laid.source], prefix.ids[laid.prefix], closing), laid.whole, arrow.IDS
        ),
        "attention_mask": lists(np.ones(len(laid.body), np.int8), laid.whole, arrow.MASK),
        "bbox": lists(boxes, laid.whole, box),
        "word_ids": lists(laid.framed(page.index[laid.word].astype(np.int32), -1, -1), laid.whole, arrow.IDS),
    }


def label_column(
    labels: Int64s, laid: Assembly, cut: Windows, counts: Int64s, *, first_only: bool
) -> pa.Array:
    """``labels`` of each window: of each word's first token or of all, -100 on what the window before has."""
    values = labels[laid.word].astype(np.int32)
    if first_only:
        values[within(counts)[laid.source] > 0] = arrow.IGNORE
    values[laid.source < np.repeat(cut.fresh, cut.end - cut.start)] = arrow.IGNORE
    return lists(laid.framed(values, arrow.IGNORE, arrow.IGNORE), laid.whole, arrow.IDS)
