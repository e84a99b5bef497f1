"""How many keys a record should have: the proof that no key stands twice.

The typed decoder keeps the last of two equal keys in silence. A key is followed by ``":``; where a record holds no
more of these than keys were decoded from it, none was lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Raw

from pipeline.batch import Int64s, Mask
from pipeline.cells import exact
from pipeline.cells.shape import Node, Shape
from pipeline.cells.turns import keys_present
from pipeline.fields import FieldType, Kind

COLON, QUOTE = ord(":"), ord('"')
MOST_DEPTH = 500
"""Deepest nesting that any schema may allow."""


def colons(array: npt.NDArray[np.uint8]) -> Mask:
    """Where a colon may stand behind a key: behind a quote or white space, inside of strings too. bool [bytes]"""
    colon = array == COLON
    colon[1:] &= (array[:-1] == QUOTE) | (array[:-1] <= ord(" "))
    return colon


def each(mask: Mask, offsets: Int64s) -> Int64s:
    """How often the mask is true in each record: int64 [n]. ``offsets`` [n + 1] are the records' borders."""
    hits = np.flatnonzero(mask)
    return np.diff(np.searchsorted(hits, offsets))


def keys(shape: Shape, rows: list[Any], unread: int, depth: int) -> Int64s:
    """Keys that each record was decoded from: int64 [n]; ``unread`` raw members are counted with theirs.

    -1 for a record with an unread value that is nested too deeply.
    """
    counts = np.zeros(len(rows), np.int64)
    _count(shape.root, rows, np.arange(len(rows)), counts)
    for i in range(unread):
        for place, row in enumerate(rows):
            raw = bytes(getattr(row, f"u{i}"))
            if raw:
                counts[place] += 1 + (raw.count(b'":') if raw[:1] in b"[{" else 0)
                if raw.count(b"[") + raw.count(b"{") >= depth and exact.nesting(raw) >= depth:
                    counts[place] = -(2**40)
    return counts


def _count(node: Node, values: list[Any], owners: Int64s, counts: Int64s) -> None:
    """Add the keys below these values of a node to their owners' counts."""
    if node.leaf is not None:
        assert node.reading is not None  # noqa: S101
        _count_leaf(node.leaf, values, owners, counts, node)
        return
    always = 0
    for member in node.members.values():
        simple = member.leaf is not None and member.leaf.kind in _SCALARS and not member.lists
        always += member.required
        if simple and member.required:
            continue
        below, there = [getattr(value, member.attribute) for value in values], owners
        if not member.required:
            present = _present(below)
            counts += np.bincount(owners[present], minlength=len(counts))
            if not present.all():
                below = [value for value, kept in zip(below, present.tolist(), strict=True) if kept]
                there = owners[present]
        if not simple:
            below, there = _without_none(below, there)
            for _ in range(member.lists):
                below, there = _opened(below, there)
            _count(member, below, there, counts)
    if always:
        counts += always * np.bincount(owners, minlength=len(counts))


_SCALARS = (Kind.TEXT, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.DATETIME)


def _count_leaf(type_: FieldType, values: list[Any], owners: Int64s, counts: Int64s, node: Node) -> None:
    match type_.kind:
        case Kind.LIST:
            assert type_.item is not None  # noqa: S101
            if type_.item.kind not in _SCALARS:
                below, there = _opened(*_without_none(values, owners))
                _count_leaf(type_.item, below, there, counts, node)
        case Kind.STRUCT:
            values, owners = _without_none(values, owners)
            for i, (_, member) in enumerate(type_.fields):
                below = [getattr(value, f"m{i}") for value in values]
                present = _present(below)
                below = [value for value, kept in zip(below, present.tolist(), strict=True) if kept]
                counts += np.bincount(owners[present], minlength=len(counts))
                _count_leaf(member, below, owners[present], counts, node)
        case Kind.MESSAGES:
            assert node.reading is not None  # noqa: S101
            lists = [(v, o) for v, o in zip(values, owners.tolist(), strict=True) if isinstance(v, list)]
            below, there = _opened([v for v, _ in lists], np.array([o for _, o in lists], np.int64))
            present = keys_present(below, node.reading.field.message_keys)
            counts += np.bincount(there, weights=present, minlength=len(counts)).astype(np.int64)
        case Kind.JSON:
            inner = [_keys_of(bytes(v)) if isinstance(v, Raw) else 0 for v in values]
            counts += np.bincount(owners, weights=inner, minlength=len(counts)).astype(np.int64)
        case _:
            pass


def _present(values: list[Any]) -> npt.NDArray[np.bool_]:
    if values and isinstance(values[0], Raw):
        return np.array([bool(bytes(value)) for value in values], bool)
    return np.array([value is not UNSET for value in values], bool)


def _without_none(values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
    if None not in values:
        return values, owners
    keep = np.array([value is not None for value in values], bool)
    return [value for value in values if value is not None], owners[keep]


def _opened(values: list[Any], owners: Int64s) -> tuple[list[Any], Int64s]:
    """The elements of lists, and the owner of each."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return [item for value in values for item in value], np.repeat(owners, lengths)


def _keys_of(raw: bytes) -> int:
    """Keys in a JSON text, each counted once in its object; -1 when it is not plainly good."""
    if raw[:1] not in b"[{":
        return 0
    try:
        return sum(1 for _ in exact.members(exact.parse(raw, MOST_DEPTH)))
    except exact.NotJson:
        return -(2**20)
