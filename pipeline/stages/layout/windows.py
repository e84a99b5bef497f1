"""Long pages become windows of tokens: prefix, tokens with their word's box and label, end token."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipeline.arrow_lists import flatten, lists, owners, within
from pipeline.batch import Batch, Int64s, Mask
from pipeline.errors import TokenizerError
from pipeline.models.families import FAMILIES, Limits
from pipeline.models.tokenizer import Tokenizer
from pipeline.schema.layout import Labels
from pipeline.shards import schemas
from pipeline.stages.layout.ragged import BOXES, INDEX, LABELS, WORDS

# The good pages of a batch laid flat, one element a word, for the encoder.


@dataclass(frozen=True, slots=True)
class FlatPages:
    """Words, boxes [words, 4], label ids or None, place of each word in the record as read; words of each record."""

    words: pl.Series
    boxes: npt.NDArray[Any]
    labels: Int64s | None
    index: Int64s
    lengths: Int64s

    @classmethod
    def of(cls, batch: Batch) -> FlatPages:
        """Lay the pages of a batch flat."""
        frame = batch.frame
        oldest = pl.CompatLevel.oldest()
        words = frame[WORDS].explode(empty_as_null=False, keep_nulls=False)
        boxes, lengths = flatten(frame[BOXES].to_arrow(compat_level=oldest))
        index, _ = flatten(frame[INDEX].to_arrow(compat_level=oldest))
        labels = None
        if LABELS in frame.columns:
            labels, _ = flatten(frame[LABELS].to_arrow(compat_level=oldest))
        return cls(words, boxes, labels, index, lengths)

    @property
    def owner(self) -> Int64s:
        """int64 [words], the record of each word."""
        return owners(self.lengths)

    @property
    def starts(self) -> Int64s:
        """int64 [records], the first word of each record."""
        starts: Int64s = np.cumsum(self.lengths) - self.lengths
        return starts

    def records(self, labels: Labels | None) -> list[str]:
        """The judged records as JSON, boxes as certified; labels by name where they were read by name."""
        names = dict(enumerate(labels.names)) if labels is not None and labels.form == "names" else None
        out, words, boxes = [], self.words.to_list(), self.boxes.tolist()
        ids = self.labels.tolist() if self.labels is not None else None
        ends = np.cumsum(self.lengths).tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            record: dict[str, Any] = {"words": words[start:end], "bboxes": boxes[start:end]}
            if ids is not None:
                record["labels"] = [names.get(i) if names else i for i in ids[start:end]]
            out.append(json.dumps(record, ensure_ascii=False))
        return out


# What stands before the page's tokens in every window: the start token, and a question with its separators.


Int32s = npt.NDArray[np.int32]
Float64s = npt.NDArray[np.float64]
QUESTION = "@question"


@dataclass(frozen=True, slots=True)
class Prefix:
    """Tokens before the page, of each record.

    Attributes:
        ids: int32, all prefixes end to end; ``boxes`` float64 [ids, 4].
        lengths: int64 [records].
    """

    ids: Int32s
    boxes: Float64s
    lengths: Int64s

    def of_windows(self, records: Int64s) -> tuple[Int64s, Int64s]:
        """For windows of these records: places in ``ids`` of their prefix tokens, end to end; and the counts."""
        lengths = self.lengths[records]
        starts = (np.cumsum(self.lengths) - self.lengths)[records]
        return np.repeat(starts, lengths) + within(lengths), lengths


def special_ends(tokenizer: Tokenizer) -> tuple[int, int]:
    """The token before and the one after every window.

    Raises:
        TokenizerError: the tokenizer has none.
    """
    if tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise TokenizerError(
            "a document model's tokenizer needs a cls and a sep token",
            where=tokenizer.name,
            found=f"cls {tokenizer.cls_id}, sep {tokenizer.sep_id}",
            remedy="use the model's own tokenizer",
        )
    return tokenizer.cls_id, tokenizer.sep_id


def plain_prefix(tokenizer: Tokenizer, limits: Limits, records: int) -> Prefix:
    """The start token alone."""
    opening, _ = special_ends(tokenizer)
    boxes = np.tile(np.array(limits.cls_box, float), (records, 1))
    return Prefix(np.full(records, opening, np.int32), boxes, np.ones(records, np.int64))


def question_prefix(batch: Batch, tokenizer: Tokenizer, limits: Limits) -> Prefix:
    """Start token, question and separators: ``<s> q </s></s>`` or ``[CLS] q [SEP]``. A question's tokens have the box
    of a pad, as the families' own tokenizers give them."""
    opening, sep = special_ends(tokenizer)
    seps = FAMILIES[limits.family].question_seps if limits.family is not None else 1
    # The question is split at white space like the words of a page, as transformers' document tokenizers do.
    words = batch.frame[QUESTION].str.extract_all(r"\S+")
    counts = words.list.len().cast(pl.Int64).to_numpy()
    texts = words.explode(empty_as_null=False, keep_nulls=False).to_arrow(
        compat_level=pl.CompatLevel.oldest()
    )
    ids, tokens = tokenizer.encode_words(texts)
    inner = np.add.reduceat(np.append(tokens, 0), np.cumsum(counts) - counts) * (counts > 0)
    lengths = inner + 1 + seps
    last = np.cumsum(lengths)
    out = np.full(int(lengths.sum()), sep, np.int32)
    boxes = np.tile(np.array(limits.sep_box, float), (len(out), 1))
    place = within(lengths)
    question = (place >= 1) & (place < np.repeat(inner, lengths) + 1)
    out[question] = ids
    boxes[question] = limits.pad_box
    out[last - lengths] = opening
    boxes[last - lengths] = limits.cls_box
    return Prefix(out, boxes, lengths)


# Long pages become windows of tokens; neighbours share ``stride`` tokens.


@dataclass(frozen=True, slots=True)
class Windows:
    """int64 [windows] each, in the order of the records.

    Attributes:
        record: position of the record.
        start, end: tokens [start, end) of all tokens end to end.
        fresh: first token that no window before holds.
        number, count: which window of its record, and of how many.
    """

    record: Int64s
    start: Int64s
    end: Int64s
    fresh: Int64s
    number: Int64s
    count: Int64s


def windows(tokens: Int64s, room: int | Int64s, stride: int) -> Windows:
    """Cut records of ``tokens`` tokens (int64 [records]) into windows of at most ``room`` (one for all, or each).

    Window k starts at k · (room − stride), as ``return_overflowing_tokens`` of the tokenizers library has it; the
    last one ends with the record and holds at least one fresh token. A record without tokens has no window.
    """
    room = np.broadcast_to(room, tokens.shape)
    if stride < 0 or (room <= stride).any():
        raise ValueError(f"a stride of {stride} in windows of {room.min()} tokens")
    step = room - stride
    count = np.where(tokens > 0, 1 + np.maximum(0, -(-(tokens - room) // step)), 0)
    record = np.repeat(np.arange(len(tokens)), count)
    number = within(count)
    begin = (np.cumsum(tokens) - tokens)[record]
    start = begin + number * step[record]
    end = np.minimum(start + room[record], begin + tokens[record])
    fresh = np.where(number > 0, start + stride, start)
    return Windows(record, start, end, fresh, number, count[record])


def worth_learning(cut: Windows, learnable: Mask) -> Windows:
    """Without the windows after a record's first whose fresh tokens hold nothing that could be learnt: the tail of
    one word longer than a window, of which only the first token has a label. No word and no label is lost."""
    running = np.zeros(len(learnable) + 1, np.int64)
    np.cumsum(learnable, out=running[1:])
    keep = (running[cut.end] > running[cut.fresh]) | (cut.number == 0)
    if keep.all():
        return cut
    record = cut.record[keep]
    count = np.bincount(record, minlength=int(cut.record.max()) + 1)
    return Windows(record, cut.start[keep], cut.end[keep], cut.fresh[keep], within(count), count[record])


# Windows become columns: prefix, tokens with their word's box and label, end token.


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
            laid.framed(ids[laid.source], prefix.ids[laid.prefix], closing), laid.whole, schemas.IDS
        ),
        "attention_mask": lists(np.ones(len(laid.body), np.int8), laid.whole, schemas.MASK),
        "bbox": lists(boxes, laid.whole, box),
        "word_ids": lists(
            laid.framed(page.index[laid.word].astype(np.int32), -1, -1), laid.whole, schemas.IDS
        ),
    }


def label_column(
    labels: Int64s, laid: Assembly, cut: Windows, counts: Int64s, *, first_only: bool
) -> pa.Array:
    """``labels`` of each window: of each word's first token or of all, -100 on what the window before has."""
    values = labels[laid.word].astype(np.int32)
    if first_only:
        values[within(counts)[laid.source] > 0] = schemas.IGNORE
    values[laid.source < np.repeat(cut.fresh, cut.end - cut.start)] = schemas.IGNORE
    return lists(laid.framed(values, schemas.IGNORE, schemas.IGNORE), laid.whole, schemas.IDS)
