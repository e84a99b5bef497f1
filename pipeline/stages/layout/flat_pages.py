"""The good pages of a batch laid flat, one element a word, for the encoder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.arrays import flat, owners
from pipeline.batch import Batch, Int64s
from pipeline.schema.layout import Labels
from pipeline.stages.layout.words import BOXES, INDEX, LABELS, WORDS


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
        boxes, lengths = flat(frame[BOXES].to_arrow(compat_level=oldest))
        index, _ = flat(frame[INDEX].to_arrow(compat_level=oldest))
        labels = None
        if LABELS in frame.columns:
            labels, _ = flat(frame[LABELS].to_arrow(compat_level=oldest))
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
