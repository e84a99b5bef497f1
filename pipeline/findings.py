"""Findings: what is wrong with records and files, by reason, column and place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pipeline.batch import Findings
from pipeline.reasons import Policy, Reason

# What is said of a whole file: notes, and the fault that ends the reading of one file (never of the run).


@dataclass(frozen=True, slots=True)
class FileNote:
    """One finding about a file. ``found`` and ``expected`` never hold cell text, so that they may be logged."""

    reason: Reason
    source: str
    found: str = ""
    expected: str = ""

    def __str__(self) -> str:
        return f"{self.source}: {self.reason.message(self.found, self.expected)}"


class FileFault(Exception):
    """A file that cannot be read. It costs this file; the others still go through."""

    def __init__(self, note: FileNote) -> None:
        super().__init__(note)
        self.note = note

    def __str__(self) -> str:
        return str(self.note)


def file_fault(reason: Reason, source: str, found: str = "", expected: str = "") -> FileFault:
    """The fault to raise for one finding about a file."""
    return FileFault(FileNote(reason, source, found, expected))


# Findings gathered one by one, on the path of bad records, and turned into columns at the end.


MOST_PLACES = 20
"""Places shown of one reason in one column of one record."""
SHOWN_CHARACTERS = 80
"""Characters shown of a value."""


def clip(text: str) -> str:
    """A value as shown in a finding."""
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


@dataclass(slots=True)
class FindingCollector:
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
        if self._counts[(*key, record)] <= MOST_PLACES:
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
