"""Findings on files and records.

Notes and faults tell what is wrong with a file. A ``FindingCollector`` collects findings on single records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.reasons import Policy, Reason

if TYPE_CHECKING:
    from pipeline.batch import Findings

# Files


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
    """A file that cannot be read. It costs only this file: the run goes on with the others."""

    def __init__(self, note: FileNote) -> None:
        super().__init__(note)
        self.note = note

    def __str__(self) -> str:
        return str(self.note)


def file_fault(reason: Reason, source: str, found: str = "", expected: str = "") -> FileFault:
    """The fault to raise for a file, with its note."""
    return FileFault(FileNote(reason, source, found, expected))


# Records

MOST_FINDINGS = 20
"""Findings kept for one reason in one column of one record."""
SHOWN_CHARACTERS = 80
"""Characters of a value that a finding shows."""


def clip(text: str) -> str:
    """A value, cut to the length that a finding shows."""
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


@dataclass(slots=True)
class FindingCollector:
    """Collects findings one by one and returns them in columns.

    ``policy`` gives the policy of a reason in the schema.
    """

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
        """Add a finding on the record with this id. ``MOST_FINDINGS`` are kept of one reason in one column.

        ``lost``: nothing can replace the value, so that only the policy quarantine is possible.
        """
        key = (reason, column, lost)
        self._counts[(*key, record)] += 1
        if self._counts[(*key, record)] <= MOST_FINDINGS:
            self._items.setdefault(key, []).append((record, path, clip(found), clip(expected)))

    def findings(self) -> Findings:
        """All findings, ordered by reason and column, each with its records in order."""
        import numpy as np

        from pipeline.batch import Findings

        result = Findings()
        if not self._items:
            return result
        order = {reason: i for i, reason in enumerate(Reason)}
        for reason, column, lost in sorted(self._items, key=lambda key: (order[key[0]], *key[1:])):
            items = sorted(self._items[reason, column, lost], key=lambda item: item[0])
            result.add(
                reason,
                Policy.QUARANTINE if lost else self.policy(reason),
                column,
                np.array([item[0] for item in items], np.int64),
                paths=[item[1] for item in items],
                found=[item[2] for item in items],
                expected=[item[3] for item in items],
            )
        return result
