"""The closed list of labels: ids, and what BIO and BIOES make of their names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from pipeline.arrays import owners
from pipeline.batch import Int64s, Mask
from pipeline.schema.layout import Labels
from pipeline.stages.layout.ragged import per_record

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
