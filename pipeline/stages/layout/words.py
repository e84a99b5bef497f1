"""Words: as many as boxes and labels, all of them text; blank words and declared pseudo-words dropped with their
box and label. The record's numbering of words is kept in ``@word_index``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.errors import SchemaError
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import LayoutSchema
from pipeline.stages.context import Context
from pipeline.stages.layout.labels import UNKNOWN, LabelNames, orphaned
from pipeline.stages.layout.ragged import (
    BOXES,
    INDEX,
    LABELS,
    SHOWN_CHARACTERS,
    WORDS,
    Ragged,
    indexed,
    shown_hits,
)

BLANK = (
    r"^[\s\p{Cc}\p{Cf}\x{034F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{2800}\x{3164}\x{FE00}-\x{FE0F}\x{FFA0}]*$"
)
"""What no reader sees: white space, control and format characters (zero-width ones, soft hyphens, direction marks),
fillers and variation selectors. A tokenizer gives such a word no token, or one that means nothing."""
INVALID = r"[\x{0000}\x{FFFD}]"
NULL_WORD = "\u2400"
"""Stands where a page that is rejected for it has null for a word."""


@dataclass(slots=True)
class WordStage:
    """Judge and drop words."""

    context: Context[LayoutSchema]
    name: str = "words"
    _names: LabelNames | None = field(init=False, default=None)
    _labels_required: bool = field(init=False, default=True)
    _pseudo: str | None = field(init=False, default=None)
    _control: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        layout = self.context.schema.layout
        if layout.labels is not None:
            self._names = LabelNames.of(layout.labels)
            self._labels_required = layout.labels.required
        if self.context.tokenizer is not None:
            self._control = sorted(self.context.tokenizer.control)
        if layout.drop_words:
            self._pseudo = "|".join(f"(?:{pattern})" for pattern in layout.drop_words)
            try:
                pl.Series([""]).str.contains(self._pseudo)
            except pl.exceptions.ComputeError as error:
                raise SchemaError(
                    "`drop_words` holds no valid regular expression",
                    where="layout: drop_words",
                    remedy="use the syntax of Rust's regex crate: no look-around, no back-references",
                ) from error

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        page = _Lists.of(batch)
        page = self._of_one_length(batch, page, findings)
        page = self._texts(batch, page, findings)
        keep = self._dropped(batch, page, findings)
        index = Ragged(pl.Series(page.words.place), page.words.lengths, page.words.present)
        page = page.of_elements(keep)
        index = index.of_elements(keep)
        empty = page.words.present & (page.words.lengths == 0)
        findings.add(Reason.DOC_EMPTY, Policy.QUARANTINE, WORDS, batch.ids[empty])
        columns = [page.words.nested().alias(WORDS), page.boxes.nested().alias(BOXES)]
        if page.labels is not None:
            columns.append(page.labels.nested().alias(LABELS))
        return batch.with_frame(batch.frame.with_columns(*columns, index.nested().alias(INDEX))), findings

    def _of_one_length(self, batch: Batch, page: _Lists, findings: Findings) -> _Lists:
        """Never cut to the shorter list: a record whose lists differ keeps none of them."""
        words, sound = page.words, page.words.present & page.boxes.present
        differ = sound & (words.lengths != page.boxes.lengths)
        self._mismatch(batch, Reason.WORDS_BOXES_MISMATCH, BOXES, words, page.boxes, differ, findings)
        sound = sound & ~differ
        if page.labels is not None:
            both = words.present & page.labels.present
            differ = both & (words.lengths != page.labels.lengths)
            self._mismatch(batch, Reason.WORDS_LABELS_MISMATCH, LABELS, words, page.labels, differ, findings)
            sound = sound & page.labels.present & ~differ
            if not self._labels_required:
                unlabelled = batch.ids[~page.labels.present]
                findings.add(Reason.LABEL_ALL_IGNORED, Policy.QUARANTINE, LABELS, unlabelled)
        return page.of_records(sound)

    def _mismatch(
        self,
        batch: Batch,
        reason: Reason,
        column: str,
        words: Ragged,
        others: Ragged,
        hits: Mask,
        findings: Findings,
    ) -> None:
        counts = zip(words.lengths[hits].tolist(), others.lengths[hits].tolist(), strict=True)
        found = [f"{n} words, {m} {column[1:]}" for n, m in counts]
        findings.add(reason, Policy.QUARANTINE, column, batch.ids[hits], found=found)

    def _texts(self, batch: Batch, page: _Lists, findings: Findings) -> _Lists:
        """Judge what the words are made of; trim them."""
        words, schema = page.words, self.context.schema
        null = words.values.is_null().to_numpy()
        self._report(batch, Reason.WORD_NOT_TEXT, Policy.QUARANTINE, words, null, findings, "null")
        texts = words.values.fill_null(NULL_WORD) if null.any() else words.values
        invalid = texts.str.contains(INVALID).to_numpy()
        policy = schema.policy(Reason.TEXT_INVALID_UNICODE)
        self._report(batch, Reason.TEXT_INVALID_UNICODE, policy, words, invalid, findings, "NUL or U+FFFD")
        if invalid.any():
            texts = texts.str.replace_all(INVALID, "")
        trimmed = texts.str.strip_chars()
        edges = ((trimmed.str.len_bytes() != texts.str.len_bytes()) & (trimmed != "")).to_numpy()
        policy = schema.policy(Reason.WORD_TRIMMED)
        self._report(batch, Reason.WORD_TRIMMED, policy, words, edges, findings, "")
        control = self._control
        if control:
            spelled = trimmed.str.contains_any(control).to_numpy()
            policy = schema.policy(Reason.WORD_CONTROL_TOKEN)
            self._report(batch, Reason.WORD_CONTROL_TOKEN, policy, words, spelled, findings, trimmed)
        return _Lists(Ragged(trimmed, words.lengths, words.present), page.boxes, page.labels)

    def _report(
        self,
        batch: Batch,
        reason: Reason,
        policy: Policy,
        words: Ragged,
        hit: Mask,
        findings: Findings,
        found: str | pl.Series,
    ) -> None:
        """One rule's hits; ``found`` is one text for all, or the words to show."""
        if not hit.any():
            return
        hits = shown_hits(words.owner, hit)
        shown = (
            found
            if isinstance(found, str)
            else found[pl.Series(hits)].str.slice(0, SHOWN_CHARACTERS).to_list()
        )
        findings.add(
            reason, policy, WORDS, batch.ids[words.owner[hits]], paths=indexed(words.place[hits]), found=shown
        )

    def _dropped(self, batch: Batch, page: _Lists, findings: Findings) -> Mask:
        """Words to keep, bool [words]. A drop that would break an entity rejects the page."""
        words, schema = page.words, self.context.schema
        keep = np.ones(len(words.values), bool)
        blank = words.values.str.contains(BLANK).to_numpy()
        drops = [(Reason.WORD_EMPTY, blank)]
        if self._pseudo is not None:
            pseudo = words.values.str.contains(self._pseudo).to_numpy() & ~blank
            drops.insert(0, (Reason.WORD_DROPPED, pseudo))
        for _, hit in drops:
            keep &= ~hit
        if keep.all():
            return keep
        ids = None
        if self._names is not None and page.labels is not None:
            ids = _ids(page.labels.values, self._names)
        broken = orphaned(self._names, ids, words.lengths, keep)
        rejected = broken[words.owner]
        for reason, hit in drops:
            self._report(batch, reason, schema.policy(reason), words, hit & ~rejected, findings, words.values)
            self._report(batch, reason, Policy.QUARANTINE, words, hit & rejected, findings, words.values)
        return keep


@dataclass(frozen=True, slots=True)
class _Lists:
    """The parallel lists of a batch's pages, laid flat."""

    words: Ragged
    boxes: Ragged
    labels: Ragged | None

    @classmethod
    def of(cls, batch: Batch) -> _Lists:
        frame = batch.frame
        labels = Ragged.of(frame[LABELS]) if LABELS in frame.columns else None
        return cls(Ragged.of(frame[WORDS]), Ragged.of(frame[BOXES]), labels)

    def of_records(self, keep: Mask) -> _Lists:
        labels = None if self.labels is None else self.labels.of_records(keep)
        return _Lists(self.words.of_records(keep), self.boxes.of_records(keep), labels)

    def of_elements(self, keep: Mask) -> _Lists:
        labels = None if self.labels is None else self.labels.of_elements(keep)
        return _Lists(self.words.of_elements(keep), self.boxes.of_elements(keep), labels)


def label_ids(frame: pl.DataFrame, names: LabelNames | None) -> Int64s | None:
    """Ids of the labels of all words of a frame, end to end; None where there are none."""
    if names is None or LABELS not in frame.columns:
        return None
    return _ids(Ragged.of(frame[LABELS]).values, names)


def _ids(labels: pl.Series, names: LabelNames) -> Int64s:
    if labels.dtype == pl.String:
        return names.ids(labels)
    return labels.fill_null(UNKNOWN).to_numpy()
