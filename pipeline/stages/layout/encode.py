"""Encode: words become tokens with their word's box and label, pages become windows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipeline.arrays import flat, lists, owners, within
from pipeline.batch import Batch, Findings, Int64s, Samples
from pipeline.errors import SchemaError, TokenizerError
from pipeline.models.tokenizer import Tokenizer
from pipeline.reasons import Policy, Reason
from pipeline.schema.layout import Layout
from pipeline.shards import arrow
from pipeline.stages.context import Context
from pipeline.stages.layout.image import IMAGE, PAGE_ID, PIXELS, image_spec
from pipeline.stages.layout.label_names import LabelNames, orphaned
from pipeline.stages.layout.ragged import indexed, per_record, shown_hits
from pipeline.stages.layout.window import Windows, windows, worth_learning
from pipeline.stages.layout.words import BOXES, INDEX, LABELS, WORDS
from pipeline.stages.provenance import carried, provenance

Int32s = npt.NDArray[np.int32]


@dataclass(slots=True)
class Encode:
    """The samples of good records: one a window."""

    context: Context
    name: str = "encode"
    _layout: Layout = field(init=False)
    _names: LabelNames | None = field(init=False, default=None)
    _tokenizer: Tokenizer = field(init=False)
    _ends: tuple[int, int] = field(init=False)
    _room: int = field(init=False)

    def __post_init__(self) -> None:
        layout, tokenizer = self.context.schema.layout, self.context.tokenizer
        assert layout is not None  # noqa: S101 - the model proves it
        assert tokenizer is not None  # noqa: S101 - the model proves it
        self._layout = layout
        self._names = LabelNames.of(layout.labels) if layout.labels is not None else None
        self._tokenizer = tokenizer
        self._ends = _ends(tokenizer)
        self._room = _longest(self.context) - 2
        if layout.window.stride >= self._room:
            raise SchemaError(
                "windows would not move on", where="layout: window: stride", found=str(layout.window.stride),
                expected=f"less than {self._room}, the tokens of a window without its two special ones",
            )  # fmt: skip

    def __call__(self, batch: Batch) -> tuple[Samples, Findings]:
        from pipeline.stages.layout.stage import shard_schema

        findings = Findings()
        page = _Page.of(batch)
        # An Arrow array: the tokenizer remembers words, and looks each distinct one up once.
        ids, counts = self._tokenizer.encode_words(page.words.to_arrow(compat_level=pl.CompatLevel.oldest()))
        self._tokenless(batch, page, counts, findings)
        cut = self._cut(batch, page, counts, findings)
        columns = self._tokens(page, ids, counts, cut)
        columns |= carried(batch, cut.record, self.context.columns)
        columns |= provenance(batch, cut.record, findings, cut.number)
        columns["window"] = pa.array(cut.number, pa.int32())
        columns["windows"] = pa.array(cut.count, pa.int32())
        if self._layout.image is not None:
            columns["page_id"] = (
                batch.frame[PAGE_ID]
                .to_arrow(compat_level=pl.CompatLevel.oldest())
                .cast(pa.string())
                .take(pa.array(cut.record))
            )
        if self.context.schema.output.keep_record:
            columns["record"] = pa.array(self._records(page), pa.string()).take(pa.array(cut.record))
        schema = shard_schema(self.context)
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        return Samples(table, batch.ids[cut.record], self._pages(batch)), findings

    def _tokenless(self, batch: Batch, page: _Page, counts: Int64s, findings: Findings) -> None:
        """Words the tokenizer makes nothing of: they vanish, with their label."""
        nothing = counts == 0
        if not nothing.any():
            return
        broken = orphaned(self._names, page.labels, page.lengths, ~nothing)[owners(page.lengths)]
        empty = (per_record(page.lengths, ~nothing) == 0)[owners(page.lengths)]
        policy = self.context.schema.policy(Reason.WORD_EMPTY)
        for how, hit in (
            (policy, nothing & ~broken & ~empty),
            (Policy.QUARANTINE, nothing & (broken | empty)),
        ):
            hits = shown_hits(owners(page.lengths), hit)
            findings.add(
                Reason.WORD_EMPTY, how, WORDS, batch.ids[owners(page.lengths)[hits]],
                paths=indexed(page.index[hits]), found="no token",
            )  # fmt: skip

    def _cut(self, batch: Batch, page: _Page, counts: Int64s, findings: Findings) -> Windows:
        """Windows of the batch's pages."""
        tokens = np.add.reduceat(np.append(counts, 0), _starts(page.lengths)) * (page.lengths > 0)
        long = np.flatnonzero(tokens > self._room)
        findings.add(
            Reason.SEQUENCE_TOO_LONG, self.context.schema.policy(Reason.SEQUENCE_TOO_LONG), WORDS, batch.ids[long],
            found=[str(count + 2) for count in tokens[long].tolist()], expected=str(self._room + 2),
        )  # fmt: skip
        cut = windows(tokens, self._room, self._layout.window.stride)
        labels = self._layout.labels
        if labels is not None and labels.align == "first_subword" and len(long):
            return worth_learning(cut, within(counts) == 0)
        return cut

    def _tokens(self, page: _Page, ids: Int32s, counts: Int64s, cut: Windows) -> dict[str, pa.Array]:
        """``input_ids, attention_mask, bbox, word_ids`` and ``labels`` of each window."""
        limits = self.context.limits
        assert limits is not None  # noqa: S101 - every line has them
        inner = cut.end - cut.start
        whole = inner + 2
        source = np.repeat(cut.start, inner) + within(inner)  # token of the batch, for each token of a window
        last = np.cumsum(whole) - 1
        first = last - whole + 1
        body = np.ones(int(whole.sum()), bool)
        body[first] = body[last] = False
        word = np.repeat(np.arange(len(counts)), counts)[source]

        def framed(inside: npt.NDArray[Any], opening: Any, closing: Any) -> npt.NDArray[Any]:
            out = np.empty((len(body), *inside.shape[1:]), inside.dtype)
            out[body], out[first], out[last] = inside, opening, closing
            return out

        opening, closing = self._ends
        float_boxes = page.boxes.dtype == np.float32
        columns = {
            "input_ids": lists(framed(ids[source], opening, closing), whole, arrow.IDS),
            "attention_mask": lists(np.ones(len(body), np.int8), whole, arrow.MASK),
            "bbox": lists(
                framed(page.boxes[word], limits.cls_box, limits.sep_box), whole, _box_type(float_boxes)
            ),
            "word_ids": lists(framed(page.index[word].astype(np.int32), -1, -1), whole, arrow.IDS),
        }
        if page.labels is not None:
            assert self._layout.labels is not None  # noqa: S101 - the stages before made them
            labels = page.labels[word].astype(np.int32)
            if self._layout.labels.align == "first_subword":
                labels[within(counts)[source] > 0] = arrow.IGNORE
            labels[source < np.repeat(cut.fresh, inner)] = arrow.IGNORE
            columns["labels"] = lists(framed(labels, arrow.IGNORE, arrow.IGNORE), whole, arrow.IDS)
        return columns

    def _records(self, page: _Page) -> list[str]:
        """The judged records as JSON, boxes as certified; labels by name where they were read by name."""
        names = None
        if self._layout.labels is not None and self._layout.labels.form == "names":
            names = dict(enumerate(self._layout.labels.names))
        out, words, boxes = [], page.words.to_list(), page.boxes.tolist()
        labels = page.labels.tolist() if page.labels is not None else None
        ends = np.cumsum(page.lengths).tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            record: dict[str, Any] = {"words": words[start:end], "bboxes": boxes[start:end]}
            if labels is not None:
                record["labels"] = [names.get(i) if names else i for i in labels[start:end]]
            out.append(json.dumps(record, ensure_ascii=False))
        return out

    def _pages(self, batch: Batch) -> pa.Table | None:
        """The page images of the batch, each once."""
        if self._layout.image is None:
            return None
        schema = arrow.pages(image_spec(self.context).side)
        frame = (
            batch.frame.select(PAGE_ID, IMAGE, PIXELS)
            .filter(pl.col(PIXELS).is_not_null())
            .unique(PAGE_ID, keep="first", maintain_order=True)
        )
        joined = b"".join(frame[PIXELS].to_list())
        numbers = pa.array(np.frombuffer(joined, np.uint8))
        pixels = pa.FixedSizeListArray.from_arrays(numbers, type=schema.field("pixels").type)
        columns = {
            "page_id": pa.array(frame[PAGE_ID].to_list(), pa.string()),
            "source": pa.array([batch.source] * len(frame), pa.string()),
            "image": pa.array(frame[IMAGE].to_list(), pa.string()),
            "pixels": pixels,
        }
        return pa.table([columns[name] for name in schema.names], schema=schema)


@dataclass(frozen=True, slots=True)
class _Page:
    """The good pages of a batch, laid flat: one element a word."""

    words: pl.Series
    boxes: npt.NDArray[Any]
    labels: Int64s | None
    index: Int64s
    lengths: Int64s

    @classmethod
    def of(cls, batch: Batch) -> _Page:
        frame = batch.frame
        words = frame[WORDS].explode(empty_as_null=False, keep_nulls=False)
        boxes, lengths = flat(frame[BOXES].to_arrow(compat_level=pl.CompatLevel.oldest()))
        index, _ = flat(frame[INDEX].to_arrow(compat_level=pl.CompatLevel.oldest()))
        labels = None
        if LABELS in frame.columns:
            labels, _ = flat(frame[LABELS].to_arrow(compat_level=pl.CompatLevel.oldest()))
        return cls(words, boxes, labels, index, lengths)


def _starts(lengths: Int64s) -> Int64s:
    starts: Int64s = np.cumsum(lengths) - lengths
    return starts


def _ends(tokenizer: Tokenizer) -> tuple[int, int]:
    """The token before and the one after every window."""
    if tokenizer.cls_id is None or tokenizer.sep_id is None:
        raise TokenizerError(
            "a document model's tokenizer needs a cls and a sep token", where=tokenizer.name,
            found=f"cls {tokenizer.cls_id}, sep {tokenizer.sep_id}", remedy="use the model's own tokenizer",
        )  # fmt: skip
    return tokenizer.cls_id, tokenizer.sep_id


def _longest(context: Context) -> int:
    """Tokens of one window, special ones counted."""
    layout, limits = context.schema.layout, context.limits
    assert layout is not None  # noqa: S101 - the model proves it
    longest = layout.window.max_tokens
    if limits is not None and limits.max_tokens is not None:
        longest = min(longest, limits.max_tokens)
    if longest < 3:
        raise SchemaError("no room for a token", where="layout: window: max_tokens", found=str(longest))
    return longest


def _box_type(float_boxes: bool) -> pa.DataType:
    number = pa.float32() if float_boxes else pa.int16()
    return pa.list_(pa.list_(pa.field("item", number, nullable=False), 4))
