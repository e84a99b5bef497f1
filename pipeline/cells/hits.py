"""Findings gathered one by one, on the path of bad records, and turned into columns at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pipeline.batch import Findings
from pipeline.reasons import Policy, Reason

MOST = 20
"""Places shown of one reason in one column of one record."""
SHOWN = 80
"""Characters shown of a value."""


def clip(text: str) -> str:
    """A value as shown in a finding."""
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


@dataclass(slots=True)
class Hits:
    """Collects hits by (reason, column)."""

    policy: Callable[[Reason], Policy]
    _items: dict[tuple[Reason, str, bool], list[tuple[int, str, str, str]]] = field(default_factory=dict)
    _counts: Counter[tuple[Reason, str, bool, int]] = field(default_factory=Counter)

    def add(
        self,
        reason: Reason,
        column: str,
        record: int,
        path: str = "",
        found: str = "",
        expected: str = "",
        *,
        lost: bool = False,
    ) -> None:
        """One hit on the record with this id; of many in one column, the first ``MOST`` are kept. ``lost``: there is
        nothing to take in the value's place, so that no policy but quarantine can be followed."""
        key = (reason, column, lost)
        self._counts[(*key, record)] += 1
        if self._counts[(*key, record)] <= MOST:
            self._items.setdefault(key, []).append((record, path, clip(found), clip(expected)))

    def findings(self) -> Findings:
        """All hits, ordered by reason and column, each with its records in order."""
        result = Findings()
        if not self._items:
            return result
        order = {reason: i for i, reason in enumerate(Reason)}
        for reason, column, lost in sorted(self._items, key=lambda key: (order[key[0]], *key[1:])):
            hits = sorted(self._items[reason, column, lost], key=lambda hit: hit[0])
            result.add(
                reason,
                Policy.QUARANTINE if lost else self.policy(reason),
                column,
                np.array([hit[0] for hit in hits], np.int64),
                paths=[hit[1] for hit in hits],
                found=[hit[2] for hit in hits],
                expected=[hit[3] for hit in hits],
            )
        return result
