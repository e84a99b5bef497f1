"""What the typed decoder misses in JSON records: repeated keys and nulls.

The decoder keeps the last of two equal keys without an error. A key is followed by ``":``; if a record has no more of
these than keys that were decoded from it, no key is repeated.

The decoder also accepts null where the schema asks for JSON of any kind. Null is not a value there: not of a required
field, not of a required member, and not of a list's element.
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
from pipeline.values.json_typed import MessageKeys, RecordShape, ShapeNode, keys_present
from pipeline.values.paths import FieldPath, element_of, holds_kind

# Nulls in JSON values


def may_hide_null(field_path: FieldPath) -> bool:
    """Whether the typed decoder may accept a null as the value at this path."""
    if field_path.type.kind is Kind.JSON:
        return field_path.field.required
    return holds_kind(field_path.type, (Kind.JSON,))


def hides_null(value: Any, type_: FieldType) -> bool:
    """Whether a decoded value is, or contains, a null that its type does not allow."""
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


# Repeated keys


_COLON, _QUOTE = ord(":"), ord('"')
MOST_DEPTH = 500
"""Deepest nesting that any schema may allow."""


def colon_mask(array: npt.NDArray[np.uint8]) -> Mask:
    """Colons that may follow a key: those after a quote or white space, within strings too. bool [bytes]"""
    colon: Mask = array == _COLON
    before = array[:-1] <= _QUOTE  # a quote, white space, a control character, or an exclamation mark
    before &= array[:-1] != ord("!")
    colon[1:] &= before
    return colon


def count_by_record(mask: Mask, offsets: Int64s) -> Int64s:
    """Number of true bytes in each record: int64 [n]. ``offsets`` (int64 [n + 1]) delimit the records."""
    hits = np.flatnonzero(mask)
    return np.diff(np.searchsorted(hits, offsets))


def count_keys(shape: RecordShape, rows: list[Any], unread: int, depth: int) -> Int64s:
    """Number of keys that were decoded from each record: int64 [n], those within its ``unread`` raw members too.

    Far below 0 for a record whose unread value is nested too deeply, so that the strict parser reads it.
    """
    counts = np.zeros(len(rows), np.int64)
    _KeyCounter(counts, depth).count_node(shape.root, rows, np.arange(len(rows)))
    for i in range(unread):
        for index, row in enumerate(rows):
            raw = bytes(getattr(row, f"u{i}"))
            if raw:
                counts[index] += 1 + (raw.count(b'":') if raw[:1] in b"[{" else 0)
                if raw.count(b"[") + raw.count(b"{") >= depth and json_strict.nesting(raw) >= depth:
                    counts[index] = -(2**40)
    return counts


class _KeyCounter:
    """Counts the keys below the values of a node, by the record that owns each value."""

    def __init__(self, counts: Int64s, depth: int) -> None:
        self._counts, self._depth = counts, depth

    def count_node(self, node: ShapeNode, values: list[Any], owners: Int64s) -> None:
        """Count the keys of the values of a node of the struct tree."""
        if node.leaf is not None:
            assert node.field_path is not None  # noqa: S101
            self._count_leaf(node.leaf, values, owners, node.field_path.field.message_keys)
            return
        always = 0
        for member in node.members.values():
            simple = member.leaf is not None and member.leaf.kind in _SCALARS and not member.lists
            always += member.required
            if simple and member.required:
                continue
            below, present = [getattr(value, member.attribute) for value in values], owners
            if not member.required:
                below, present = self._count_present(below, present)
            if not simple:
                below, present = _without_none(below, present)
                for _ in range(member.lists):
                    below, present = _list_elements(below, present)
                self.count_node(member, below, present)
        if always:
            self._add_counts(owners, always)

    def _count_leaf(self, type_: FieldType, values: list[Any], owners: Int64s, keys: MessageKeys) -> None:
        """Count the keys of the values of a leaf."""
        match type_.kind:
            case Kind.LIST if type_.item is not None and type_.item.kind not in _SCALARS:
                self._count_leaf(type_.item, *_list_elements(*_without_none(values, owners)), keys)
            case Kind.STRUCT:
                values, owners = _without_none(values, owners)
                for i, (_, member) in enumerate(type_.fields):
                    below, present = self._count_present(
                        [getattr(value, f"m{i}") for value in values], owners
                    )
                    self._count_leaf(member, below, present, keys)
            case Kind.MESSAGES:
                lists = [(v, o) for v, o in zip(values, owners.tolist(), strict=True) if isinstance(v, list)]
                below, present = _list_elements(
                    [v for v, _ in lists], np.array([o for _, o in lists], np.int64)
                )
                self._add_counts(present, np.array(keys_present(below, keys), np.int64))
            case Kind.JSON:
                inner = [_count_raw_keys(bytes(v), self._depth) if isinstance(v, Raw) else 0 for v in values]
                self._add_counts(owners, np.array(inner, np.int64))
            case _:
                pass

    def _count_present(self, values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
        """Count the keys that are present; return their values and the owner of each."""
        raw = bool(values) and isinstance(values[0], Raw)
        present = np.array([bool(bytes(v)) if raw else v is not UNSET for v in values], bool)
        self._add_counts(owners[present], 1)
        if present.all():
            return values, owners
        return [value for value, kept in zip(values, present.tolist(), strict=True) if kept], owners[present]

    def _add_counts(self, owners: Int64s, counts: Int64s | int) -> None:
        np.add.at(self._counts, owners, counts)


_SCALARS = (Kind.TEXT, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.DATETIME)


def _without_none(values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
    if None not in values:
        return values, owners
    keep = np.array([value is not None for value in values], bool)
    return [value for value in values if value is not None], owners[keep]


def _list_elements(values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
    """The elements of lists, and the owner of each."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return [item for value in values for item in value], np.repeat(owners, lengths)


def _count_raw_keys(raw: bytes, depth: int) -> int:
    """Number of keys in a JSON text, a repeated one counted once; far below 0 if the strict parser must read it."""
    if raw[:1] not in b"[{":
        return 0
    if raw.count(b"[") + raw.count(b"{") >= depth // 2 and json_strict.nesting(raw) >= depth // 2:
        return -(2**40)
    try:
        return sum(1 for _ in json_strict.all_keys(json_strict.parse_strict(raw, depth)))
    except json_strict.NotJson:
        return -(2**40)
