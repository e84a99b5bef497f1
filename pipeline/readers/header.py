"""The header of a table: its names, made unique, and the proof that it holds the columns that the schema expects."""

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
"""Rows that ``header: find`` searches."""


def column_of(path: str) -> str:
    """The column that a path begins with: a plain path is its name; ``$.meta.width`` lies in ``meta``."""
    if not path.startswith("$."):
        return path
    return path[2:].split(".", 1)[0].removesuffix("[]")


def expected_names(fields: Sequence[Field], *, required: bool = False) -> list[str]:
    """Columns that the fields are read from, each once, in order; ``required``: only those of required fields."""
    names: dict[str, None] = {}
    for field in fields:
        if field.required or not required:
            paths = (field.path,) if isinstance(field.path, str) else field.path
            names.update(dict.fromkeys(column_of(path) for path in paths))
    return list(names)


def clean_names(cells: Sequence[str | None]) -> list[str]:
    """Header cells as names, without white space at the ends and byte order marks. A NUL becomes U+FFFD: no column name
    may hold it."""
    return [(cell or "").strip("\ufeff \t\r\n\xa0").replace("\x00", "\ufffd") for cell in cells]


def align_header(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The names, spelled as in the schema where one column differs from an expected name only in white space
    (``page\\nwidth`` for ``page width``) or in the Unicode form of its accents."""
    present = set(names)
    spelled = {_normalized(name): name for name in wanted if name not in present}
    if not spelled:
        return list(names)
    counts = Counter(map(_normalized, names))
    return [spelled.get(_normalized(n), n) if counts[_normalized(n)] == 1 else n for n in names]


def _normalized(name: str) -> str:
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

    A column that is not read may be repeated or have no name: it becomes ``name (2)`` or ``(3)``, by its position.
    Raises ``FileFault`` if an expected column is missing or repeated.
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
    """Names made unique by their position: ``a, a, ""`` become ``a, a (2), (3)``."""
    taken: set[str] = set()
    result = []
    for position, name in enumerate(names, 1):
        label = name or f"({position})"
        while label in taken:
            label = f"{label} ({position})"
        taken.add(label)
        result.append(label)
    return tuple(result)
