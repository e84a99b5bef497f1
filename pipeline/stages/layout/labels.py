"""Labels: the closed list, and names or ids of words and pages that become ids of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.arrow_lists import owners
from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.reasons import Policy, Reason
from pipeline.schema.layout import Labels, PageLabel
from pipeline.schema.model import LayoutSchema
from pipeline.shards.schemas import IGNORE
from pipeline.stages.context import Context
from pipeline.stages.layout.ragged import (
    INDEX,
    LABELS,
    SHOWN_CHARACTERS,
    Ragged,
    indexed,
    per_record,
    shown_hits,
)

# The closed list of labels: ids, and what BIO and BIOES make of their names.


UNKNOWN = -1
"""Id of a name outside the list, while labels are judged; never certified."""

OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
_PREFIXES = {
    "none": {},
    "bio": {"B": BEGIN, "I": INSIDE},
    "bioes": {"B": BEGIN, "I": INSIDE, "E": END, "S": SINGLE},
}


@dataclass(frozen=True)
class LabelNames:
    """The names, and for each id its part in an entity and the entity's type.

    Attributes:
        names: the closed list; place is id.
        scheme: ``bio``, ``bioes`` or ``none``.
        part: int64 [names + 1], OUTSIDE … SINGLE; the last is for unknown and ignored labels.
        kind: int64 [names + 1], number of the entity type, -1 for none.
    """

    names: tuple[str, ...]
    scheme: str
    part: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]

    @classmethod
    def of(cls, labels: Labels) -> LabelNames:
        """Read the prefixes of a schema's label list."""
        prefixes: dict[str, int] = _PREFIXES[labels.scheme]
        kinds: dict[str, int] = {}
        part, kind = [], []
        for name in labels.names:
            prefix, dash, entity = name.partition("-")
            known = bool(dash) and prefix in prefixes
            part.append(prefixes[prefix] if known else OUTSIDE)
            kind.append(kinds.setdefault(entity, len(kinds)) if known else -1)
        return cls(labels.names, labels.scheme, np.array([*part, OUTSIDE]), np.array([*kind, -1]))

    def ids(self, names: pl.Series) -> Int64s:
        """Ids of names; ``UNKNOWN`` for null and for a name outside the list."""
        found = names.replace_strict(
            list(self.names), list(range(len(self.names))), default=UNKNOWN, return_dtype=pl.Int64
        )
        return found.fill_null(UNKNOWN).to_numpy()

    def folded(self, names: pl.Series) -> pl.Series:
        """Names as the list spells them, where they differ in case only and one name of the list fits."""
        by_fold: dict[str, list[str]] = {}
        for name in self.names:
            by_fold.setdefault(name.casefold(), []).append(name)
        spelled = {
            written: by_fold[written.casefold()][0]
            for written in names.unique().drop_nulls().sort().to_list()
            if written not in self.names and len(by_fold.get(written.casefold(), ())) == 1
        }
        if not spelled:
            return names
        return names.replace(list(spelled), list(spelled.values()))

    def breaks(self, ids: Int64s, lengths: Int64s) -> Mask:
        """Where the order of B, I, E and S is broken: bool [words]. An entity that never ends counts at the word
        after it, or at the page's last word.

        bio: I-X must follow B-X or I-X. bioes: I-X and E-X must follow B-X or I-X, and after B-X or I-X must come
        I-X or E-X. Ignored labels (-100) belong to no entity and break none: an entity may run into them.
        """
        part, _, unlabelled = self._parts(ids)
        goes_on, open_before, free_before = self._chain(ids, lengths)
        continues = (part == INSIDE) | (part == END)
        broken: Mask = continues & ~goes_on & ~free_before
        if self.scheme == "bioes":
            broken |= open_before & ~goes_on & ~unlabelled
            last = np.zeros(len(ids), bool)
            last[(np.cumsum(lengths) - 1)[lengths > 0]] = True
            broken |= last & ((part == BEGIN) | (part == INSIDE))
        return broken

    def beheaded(self, ids: Int64s, lengths: Int64s, keep: Mask) -> Mask:
        """Kept words (bool [words]) of an entity whose first word is not kept."""
        goes_on, _, _ = self._chain(ids, lengths)
        head = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(ids))))
        lost: Mask = goes_on & keep & ~keep[head]
        return lost

    def _parts(self, ids: Int64s) -> tuple[Int64s, Int64s, Mask]:
        """Part and type of each label, and whether it is none (-100, unknown)."""
        known = (ids >= 0) & (ids < len(self.names))
        at = np.where(known, ids, len(self.names))
        return self.part[at], self.kind[at], ~known

    def _chain(self, ids: Int64s, lengths: Int64s) -> tuple[Mask, Mask, Mask]:
        """For each word: whether it carries on the entity of the word before it; whether that word leaves an entity
        open; whether that word has no label."""
        part, kind, unlabelled = self._parts(ids)
        going = (part == BEGIN) | (part == INSIDE)
        owner = owners(lengths)
        same = owner[1:] == owner[:-1]
        goes_on, open_before, free_before = (np.zeros(len(ids), bool) for _ in range(3))
        open_before[1:] = going[:-1] & same
        free_before[1:] = unlabelled[:-1] & same
        goes_on[1:] = open_before[1:] & (kind[1:] == kind[:-1])
        goes_on &= (part == INSIDE) | (part == END)
        return goes_on, open_before, free_before


def orphaned(names: LabelNames | None, ids: Int64s | None, lengths: Int64s, keep: Mask) -> Mask:
    """Records (bool) in which dropping the words outside ``keep`` breaks an entity: its B- is dropped and its I- is
    not, or (bioes) its end is dropped and its beginning is not."""
    if names is None or ids is None or keep.all():
        return np.zeros(len(lengths), bool)
    beheaded = per_record(lengths, names.beheaded(ids, lengths, keep)) > 0
    kept = per_record(lengths, keep)
    before = per_record(lengths, names.breaks(ids, lengths))
    after = per_record(kept, names.breaks(ids[keep], kept))
    return beheaded | (after > before)


# Labels: names or ids become ids of the closed list; what is outside it, out of order or nothing to learn is
# found.


@dataclass(slots=True)
class LabelStage:
    """Judge labels; ``@labels`` becomes List(Int64) of ids, -100 for none."""

    context: Context[LayoutSchema]
    labels: Labels
    name: str = "labels"
    _names: LabelNames = field(init=False)

    def __post_init__(self) -> None:
        self._names = LabelNames.of(self.labels)

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
        if self.labels.fold_case and (ids == UNKNOWN).any():
            spelled = self._names.folded(written)
            folded = (spelled != written).fill_null(False).to_numpy()
            hits = shown_hits(labels.owner, folded)
            findings.add(
                Reason.LABEL_CASE_FOLDED,
                self.context.schema.policy(Reason.LABEL_CASE_FOLDED),
                LABELS,
                batch.ids[labels.owner[hits]],
                paths=self._paths(batch, hits),
                found=written[pl.Series(hits)].to_list(),
                expected=spelled[pl.Series(hits)].to_list(),
            )
            ids = self._names.ids(spelled)
        hits = shown_hits(labels.owner, ids == UNKNOWN)
        found = [_shown(name) for name in written[pl.Series(hits)].to_list()]
        findings.add(
            Reason.LABEL_UNKNOWN,
            Policy.QUARANTINE,
            LABELS,
            batch.ids[labels.owner[hits]],
            paths=self._paths(batch, hits),
            found=found,
            expected=[self._known(name) for name in found],
        )
        return ids

    def _of_ids(self, batch: Batch, labels: Ragged, findings: Findings) -> Int64s:
        null = labels.values.is_null().to_numpy()
        written = labels.values.fill_null(IGNORE).to_numpy()
        none = self.labels.ignore_id
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
        self,
        batch: Batch,
        labels: Ragged,
        reason: Reason,
        hit: Mask,
        found: str | list[str],
        expected: str,
        findings: Findings,
    ) -> None:
        hits = shown_hits(labels.owner, hit)
        findings.add(
            reason,
            Policy.QUARANTINE,
            LABELS,
            batch.ids[labels.owner[hits]],
            paths=self._paths(batch, hits),
            found=found,
            expected=expected,
        )

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
            Reason.LABEL_SCHEME_INVALID,
            self.context.schema.policy(Reason.LABEL_SCHEME_INVALID),
            LABELS,
            batch.ids[labels.owner[hits]],
            paths=self._paths(batch, hits),
            found=found,
            expected=f"{self.labels.scheme.upper()} order",
        )

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


# One label a page, for sequence classification.


PAGE_LABEL = "@page_label"


@dataclass(slots=True)
class PageLabelStage:
    """Judge the label; ``@page_label`` becomes Int64."""

    label: PageLabel
    name: str = "page label"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings, names = Findings(), self.label.names
        written = batch.frame[PAGE_LABEL]
        if self.label.form == "names":
            ids = written.replace_strict(
                list(names), list(range(len(names))), default=None, return_dtype=pl.Int64
            )
            unknown = (ids.is_null() & written.is_not_null()).to_numpy()
            self._report(batch, Reason.LABEL_UNKNOWN, unknown, written, ", ".join(names[:20]), findings)
        else:
            ids = written
            outside = ((ids < 0) | (ids >= len(names))).fill_null(False).to_numpy()
            self._report(
                batch, Reason.LABEL_OUT_OF_RANGE, outside, written, f"0 to {len(names) - 1}", findings
            )
        return batch.with_frame(batch.frame.with_columns(ids.alias(PAGE_LABEL))), findings

    def _report(
        self, batch: Batch, reason: Reason, hit: Mask, written: pl.Series, expected: str, findings: Findings
    ) -> None:
        hits: Int64s = np.flatnonzero(hit)
        shown = written[pl.Series(hits)].cast(pl.String).str.slice(0, SHOWN_CHARACTERS).to_list()
        findings.add(reason, Policy.QUARANTINE, PAGE_LABEL, batch.ids[hits], found=shown, expected=expected)
