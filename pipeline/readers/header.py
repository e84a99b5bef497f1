"""The header of a table: its names made unique, and proven to hold the columns that the schema expects."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.findings import file_fault
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from pipeline.fields import Field

SEARCH_ROWS = 50
"""Rows in which ``header: find`` looks."""


def column_of(path: str) -> str:
    """The column a path begins with: a plain path is the column's name; ``$.meta.width`` looks into ``meta``."""
    if not path.startswith("$."):
        return path
    return path[2:].split(".", 1)[0].removesuffix("[]")


def expected_names(fields: Sequence[Field], *, required: bool = False) -> list[str]:
    """Columns the fields are read from, each once, in their order; ``required``: only those that must be there."""
    names: dict[str, None] = {}
    for field in fields:
        if field.required or not required:
            paths = (field.path,) if isinstance(field.path, str) else field.path
            names.update(dict.fromkeys(column_of(path) for path in paths))
    return list(names)


def clean_names(cells: Sequence[str | None]) -> list[str]:
    """Header cells as names: edge white space and a byte order mark do not count. No name of a
    column may hold a NUL: it becomes U+FFFD."""
    return [(cell or "").strip("\ufeff \t\r\n\xa0").replace("\x00", "\ufffd") for cell in cells]


def align_header(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Names as the schema spells them: one that is not there exactly, but in a single column but for its white space
    (``page\\nwidth`` for ``page width``) and the form of its accents."""
    present = set(names)
    loose = {_loose(name): name for name in wanted if name not in present}
    if not loose:
        return list(names)
    counts = Counter(map(_loose, names))
    return [loose.get(_loose(n), n) if counts[_loose(n)] == 1 else n for n in names]


def _loose(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).split())


def holds_columns(names: Sequence[str], fields: Sequence[Field]) -> bool:
    """Whether a row of names holds every required column, and at least one expected column."""
    wanted = expected_names(fields)
    if not wanted:
        return True
    present = set(align_header(names, wanted))
    return present.issuperset(expected_names(fields, required=True)) and not present.isdisjoint(wanted)


def prove_header(names: Sequence[str], fields: Sequence[Field], source: str) -> tuple[str, ...]:
    """Column names of a file, made unique.

    A column that is not read may stand twice or have no name: it becomes ``name (2)`` or ``(3)``, its place.
    Raises ``FileFault`` when an expected column is missing or stands twice.
    """
    wanted = expected_names(fields)
    names = align_header(names, wanted)
    if not holds_columns(names, fields):
        missing = [n for n in expected_names(fields, required=True) or wanted if n not in names]
        shown = ", ".join(repr(n[:40]) for n in names[:20])
        raise file_fault(Reason.HEADER_MISSING, source, shown or "nothing", ", ".join(map(repr, missing)))
    counts = Counter(names)
    for name in wanted:
        if counts[name] > 1:
            raise file_fault(Reason.HEADER_DUPLICATE, source, repr(name))
    return unique_names(names)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names made unique by their place: ``a, a, ""`` become ``a, a (2), (3)``."""
    taken: set[str] = set()
    result = []
    for place, name in enumerate(names, 1):
        label = name or f"({place})"
        while label in taken:
            label = f"{label} ({place})"
        taken.add(label)
        result.append(label)
    return tuple(result)
