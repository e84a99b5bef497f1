"""Keys and nulls of JSON records: the proof that no key stands twice and no null hides.

The typed decoder keeps such a value as it stands, so that it takes null for one. It is none: not of a required field,
not of a member that may not be left out, not of a list's element.

The typed decoder keeps the last of two equal keys in silence. A key is followed by ``":``; where a record holds no
more of these than keys were decoded from it, none was lost.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Raw

from pipeline.batch import Int64s, Mask
from pipeline.fields import FieldType, Kind
from pipeline.values import json_strict
from pipeline.values.json_typed import MessageKeys, Node, RecordShape, keys_present
from pipeline.values.paths import FieldPath, element_of, holds_kind

# Nulls where JSON of any kind is asked for.


def may_hide_null(reading: FieldPath) -> bool:
    """Whether the typed decoder may take a null for a value of this reading."""
    if reading.type.kind is Kind.JSON:
        return reading.field.required
    return holds_kind(reading.type, (Kind.JSON,))


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


# How many keys a record should have: the proof that no key stands twice.


COLON, QUOTE = ord(":"), ord('"')
MOST_DEPTH = 500
"""Deepest nesting that any schema may allow."""


def colon_mask(array: npt.NDArray[np.uint8]) -> Mask:
    """Where a colon may stand behind a key: behind a quote or white space, inside of strings too. bool [bytes]"""
    colon: Mask = array == COLON
    before = array[:-1] <= QUOTE  # a quote, white space, a control character, or an exclamation mark
    before &= array[:-1] != ord("!")
    colon[1:] &= before
    return colon


def count_by_record(mask: Mask, offsets: Int64s) -> Int64s:
    """How often the mask is true in each record: int64 [n]. ``offsets`` [n + 1] are the records' borders."""
    hits = np.flatnonzero(mask)
    return np.diff(np.searchsorted(hits, offsets))


def count_keys(shape: RecordShape, rows: list[Any], unread: int, depth: int) -> Int64s:
    """Keys that each record was decoded from: int64 [n]; ``unread`` raw members are counted with theirs.

    -1 for a record with an unread value that is nested too deeply.
    """
    counts = np.zeros(len(rows), np.int64)
    _Counter(counts, depth).node(shape.root, rows, np.arange(len(rows)))
    for i in range(unread):
        for place, row in enumerate(rows):
            raw = bytes(getattr(row, f"u{i}"))
            if raw:
                counts[place] += 1 + (raw.count(b'":') if raw[:1] in b"[{" else 0)
                if raw.count(b"[") + raw.count(b"{") >= depth and json_strict.nesting(raw) >= depth:
                    counts[place] = -(2**40)
    return counts


class _Counter:
    """Adds the keys below the values of a node to the counts of the records they belong to (their owners)."""

    def __init__(self, counts: Int64s, depth: int) -> None:
        self._counts, self._depth = counts, depth

    def node(self, node: Node, values: list[Any], owners: Int64s) -> None:
        """Values of a node of the tree."""
        if node.leaf is not None:
            assert node.reading is not None  # noqa: S101
            self._leaf(node.leaf, values, owners, node.reading.field.message_keys)
            return
        always = 0
        for member in node.members.values():
            simple = member.leaf is not None and member.leaf.kind in _SCALARS and not member.lists
            always += member.required
            if simple and member.required:
                continue
            below, there = [getattr(value, member.attribute) for value in values], owners
            if not member.required:
                below, there = self._present(below, there)
            if not simple:
                below, there = _without_none(below, there)
                for _ in range(member.lists):
                    below, there = _opened(below, there)
                self.node(member, below, there)
        if always:
            self._add(owners, always)

    def _leaf(self, type_: FieldType, values: list[Any], owners: Int64s, keys: MessageKeys) -> None:
        """Values of what is read."""
        match type_.kind:
            case Kind.LIST if type_.item is not None and type_.item.kind not in _SCALARS:
                self._leaf(type_.item, *_opened(*_without_none(values, owners)), keys)
            case Kind.STRUCT:
                values, owners = _without_none(values, owners)
                for i, (_, member) in enumerate(type_.fields):
                    below, there = self._present([getattr(value, f"m{i}") for value in values], owners)
                    self._leaf(member, below, there, keys)
            case Kind.MESSAGES:
                lists = [(v, o) for v, o in zip(values, owners.tolist(), strict=True) if isinstance(v, list)]
                below, there = _opened([v for v, _ in lists], np.array([o for _, o in lists], np.int64))
                self._add(there, np.array(keys_present(below, keys), np.int64))
            case Kind.JSON:
                inner = [_keys_of(bytes(v), self._depth) if isinstance(v, Raw) else 0 for v in values]
                self._add(owners, np.array(inner, np.int64))
            case _:
                pass

    def _present(self, values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
        """Count the keys that are there; their values, and whose they are."""
        raw = bool(values) and isinstance(values[0], Raw)
        there = np.array([bool(bytes(v)) if raw else v is not UNSET for v in values], bool)
        self._add(owners[there], 1)
        if there.all():
            return values, owners
        return [value for value, kept in zip(values, there.tolist(), strict=True) if kept], owners[there]

    def _add(self, owners: Int64s, counts: Int64s | int) -> None:
        np.add.at(self._counts, owners, counts)


_SCALARS = (Kind.TEXT, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.DATETIME)


def _without_none(values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
    if None not in values:
        return values, owners
    keep = np.array([value is not None for value in values], bool)
    return [value for value in values if value is not None], owners[keep]


def _opened(values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
    """The elements of lists, and the owner of each."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return [item for value in values for item in value], np.repeat(owners, lengths)


def _keys_of(raw: bytes, depth: int) -> int:
    """Keys in a JSON text, each counted once in its object; far below 0 when it is to be looked at exactly."""
    if raw[:1] not in b"[{":
        return 0
    if raw.count(b"[") + raw.count(b"{") >= depth // 2 and json_strict.nesting(raw) >= depth // 2:
        return -(2**40)
    try:
        return sum(1 for _ in json_strict.object_members(json_strict.parse_strict(raw, depth)))
    except json_strict.NotJson:
        return -(2**40)
