"""Nulls where JSON of any kind is asked for.

The typed decoder keeps such a value as it stands, so that it takes null for one. It is none: not of a required field,
not of a member that may not be left out, not of a list's element.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from pipeline.cells.leaves import holds
from pipeline.cells.reads import Reading, element_of
from pipeline.fields import FieldType, Kind


def may_hide_null(reading: Reading) -> bool:
    """Whether the typed decoder may take a null for a value of this reading."""
    if reading.type.kind is Kind.JSON:
        return reading.field.required
    return holds(reading.type, (Kind.JSON,))


def hides_null(value: Any, type_: FieldType) -> bool:
    """Whether a decoded value is, or holds, a null that is none of its type's values."""
    if type_.kind is Kind.JSON:
        return isinstance(value, Raw) and bytes(value) == b"null"
    if type_.kind is Kind.STRUCT:
        return isinstance(value, msgspec.Struct) and any(
            hides_null(getattr(value, f"m{i}"), member)
            for i, (_, member) in enumerate(type_.fields)
            if not (member.optional and member.kind is Kind.JSON)
        )
    item = element_of(type_)
    return item is not None and isinstance(value, list) and any(hides_null(one, item) for one in value)
