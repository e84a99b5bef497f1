"""What is said of a whole file: notes, and the fault that ends the reading of one file (never of the run)."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.reasons import Reason


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


def fault(reason: Reason, source: str, found: str = "", expected: str = "") -> FileFault:
    """The fault to raise for one finding about a file."""
    return FileFault(FileNote(reason, source, found, expected))
