"""Labels: names or ids become ids of the closed list; what is outside it, out of order or nothing to learn is found."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.reasons import Policy, Reason
from pipeline.schema.layout import Labels
from pipeline.shards.arrow import IGNORE
from pipeline.stages.context import Context
from pipeline.stages.layout.label_names import UNKNOWN, LabelNames
from pipeline.stages.layout.ragged import SHOWN_CHARACTERS, Ragged, indexed, per_record, shown_hits
from pipeline.stages.layout.words import INDEX, LABELS


@dataclass(slots=True)
class LabelStage:
    """Judge labels; ``@labels`` becomes List(Int64) of ids, -100 for none."""

    context: Context
    name: str = "labels"
    _labels: Labels = field(init=False)
    _names: LabelNames = field(init=False)

    def __post_init__(self) -> None:
        layout = self.context.schema.layout
        assert layout is not None  # noqa: S101 - the model proves it
        assert layout.labels is not None  # noqa: S101 - `record_stages` makes no such stage without labels
        self._labels = layout.labels
        self._names = LabelNames.of(layout.labels)

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        labels = Ragged.of(batch.frame[LABELS])
        if labels.values.dtype == pl.String:
            ids = self._of_names(batch, labels, findings)
        else:
            ids = self._of_ids(batch, labels, findings)
        broken = self._names.breaks(ids, labels.lengths)
        self._order(batch, labels, ids, broken, findings)
        learned = per_record(labels.lengths, ids != IGNORE)
        nothing = (labels.lengths > 0) & (learned == 0)
        findings.add(Reason.LABEL_ALL_IGNORED, Policy.QUARANTINE, LABELS, batch.ids[nothing])
        column = Ragged(pl.Series(ids), labels.lengths, labels.present).nested()
        return batch.with_frame(batch.frame.with_columns(column.alias(LABELS))), findings

    def _of_names(self, batch: Batch, labels: Ragged, findings: Findings) -> Int64s:
        written = labels.values
        ids = self._names.ids(written)
        if self._labels.fold_case and (ids == UNKNOWN).any():
            spelled = self._names.folded(written)
            folded = (spelled != written).fill_null(False).to_numpy()
            hits = shown_hits(labels.owner, folded)
            findings.add(
                Reason.LABEL_CASE_FOLDED, self.context.schema.policy(Reason.LABEL_CASE_FOLDED), LABELS,
                batch.ids[labels.owner[hits]], paths=self._paths(batch, hits),
                found=written[pl.Series(hits)].to_list(), expected=spelled[pl.Series(hits)].to_list(),
            )  # fmt: skip
            ids = self._names.ids(spelled)
        hits = shown_hits(labels.owner, ids == UNKNOWN)
        found = [_shown(name) for name in written[pl.Series(hits)].to_list()]
        findings.add(
            Reason.LABEL_UNKNOWN, Policy.QUARANTINE, LABELS, batch.ids[labels.owner[hits]],
            paths=self._paths(batch, hits), found=found, expected=[self._known(name) for name in found],
        )  # fmt: skip
        return ids

    def _of_ids(self, batch: Batch, labels: Ragged, findings: Findings) -> Int64s:
        null = labels.values.is_null().to_numpy()
        written = labels.values.fill_null(IGNORE).to_numpy()
        none = self._labels.ignore_id
        ignored = null if none is None else null | (written == none)
        ids = np.where(ignored, IGNORE, written)
        self._report(batch, labels, Reason.LABEL_NOT_INTEGER, null, "null", "an integer", findings)
        outside = ((written < 0) | (written >= len(self._names.names))) & ~ignored
        hits = shown_hits(labels.owner, outside)
        shown = [str(value) for value in written[hits].tolist()]
        expected = f"0 to {len(self._names.names) - 1}" + ("" if none is None else f", or {none}")
        self._report(batch, labels, Reason.LABEL_OUT_OF_RANGE, outside, shown, expected, findings)
        return ids

    def _report(
        self, batch: Batch, labels: Ragged, reason: Reason, hit: Mask, found: str | list[str], expected: str,
        findings: Findings,
    ) -> None:  # fmt: skip
        hits = shown_hits(labels.owner, hit)
        findings.add(
            reason, Policy.QUARANTINE, LABELS, batch.ids[labels.owner[hits]],
            paths=self._paths(batch, hits), found=found, expected=expected,
        )  # fmt: skip

    def _order(self, batch: Batch, labels: Ragged, ids: Int64s, broken: Mask, findings: Findings) -> None:
        hits = shown_hits(labels.owner, broken)
        if not len(hits):
            return
        names = [*self._names.names, str(IGNORE)]
        first = labels.place[hits] == 0
        before = np.where(first, 0, hits - 1)
        found = [
            names[label] if alone else f"{names[label]} after {names[previous]}"
            for label, previous, alone in zip(
                self._listed(ids[hits]), self._listed(ids[before]), first.tolist(), strict=True
            )
        ]
        findings.add(
            Reason.LABEL_SCHEME_INVALID, self.context.schema.policy(Reason.LABEL_SCHEME_INVALID), LABELS,
            batch.ids[labels.owner[hits]], paths=self._paths(batch, hits), found=found,
            expected=f"{self._labels.scheme.upper()} order",
        )  # fmt: skip

    def _paths(self, batch: Batch, hits: Int64s) -> list[str]:
        """Places of words within the record as read."""
        index = batch.frame[INDEX].explode(empty_as_null=False, keep_nulls=False)
        return indexed(index[pl.Series(hits)].to_numpy())

    def _listed(self, ids: Int64s) -> list[int]:
        """Places in the list of names, one past the end for what is not in it."""
        count = len(self._names.names)
        return np.where((ids >= 0) & (ids < count), ids, count).tolist()  # type: ignore[no-any-return]

    def _known(self, name: str) -> str:
        """The list of names, the nearest first."""
        names = list(self._names.names)
        near = get_close_matches(name, names, n=1) or get_close_matches(name.upper(), names, n=1)
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        return f"{listed} (nearest: {near[0]})" if near else listed


def _shown(name: str | None) -> str:
    return "null" if name is None else name[:SHOWN_CHARACTERS]
