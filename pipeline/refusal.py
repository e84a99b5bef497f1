"""What a refused run says of its files: a budget speaks of records, and the user wants to know of both at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipeline.errors import GateError
from pipeline.reasons import Policy, Reason
from pipeline.sources.fault import FileNote

MOST_FILES = 5
"""Files named in one message."""

_NOTHING = (Reason.FILE_EMPTY, Reason.SHEET_UNREAD, Reason.SHEET_HIDDEN)
"""Why a file that could be read gave no record."""


@contextmanager
def naming(notes: Sequence[FileNote], *, read: bool) -> Iterator[None]:
    """Add to a ``GateError`` what is wrong with the files, or, where no record was read (``read``), what they hold."""
    try:
        yield
    except GateError as error:
        told = [
            n for n in notes if n.reason.facts.default is Policy.ERROR or (not read and n.reason in _NOTHING)
        ]
        if not told:
            raise
        lines = [str(note) for note in told[:MOST_FILES]]
        more = len(told) - len(lines)
        if more:
            lines.append(f"and {more} more")
        raise GateError(
            error.what,
            where=error.where,
            found="\n    ".join([error.found, *lines]),
            expected=error.expected,
            remedy=error.remedy,
        ) from error
