"""The typed decoder of a schema's records: nested msgspec structs that hold exactly what is read.

Each field becomes a member of a struct tree along its path. Values that msgspec decodes into the tree are right in
type; any other record is left to the exact parser. Two fields that want different things of one value get a tree
each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pipeline.cells.reads import Reading, element_of
from pipeline.cells.turns import turn_struct
from pipeline.fields import FieldType, Kind

Fetch = Callable[[list[Any]], list[Any]]
"""Takes one member, or a member of a member, out of each struct."""
NO_RAW = Raw(b"")
"""Default of a raw member that is not there."""
MOST_DECODERS = 64
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
"""Letters that JSON escapes: a key with one of them cannot be a member's name."""
_KEYS = msgspec.json.Decoder(dict[str, Raw])
INTEGER = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Node:
    """A value on the way: an object with members, or what is read."""

    __slots__ = ("attribute", "leaf", "lists", "members", "reading", "required", "struct")

    def __init__(self, attribute: str = "", lists: int = 0) -> None:
        self.attribute, self.lists = attribute, lists
        self.members: dict[str, Node] = {}
        self.leaf: FieldType | None = None
        self.reading: Reading | None = None
        self.required = False
        self.struct: type[msgspec.Struct] | None = None


class Shape:
    """One tree: its readings, its decoder, and a fetcher a reading.

    ``root`` is None where the value itself is read (the path ``$`` of a cell).
    """

    def __init__(self, readings: Sequence[Reading], structs: dict[FieldType, type[msgspec.Struct]]) -> None:
        self.readings = tuple(readings)
        self.structs = structs
        self.root = Node()
        for reading in self.readings:
            _place(self.root, reading)
        self.type = self._type(self.root)
        self.decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self.type)
        self._decoders: dict[tuple[str, ...], msgspec.json.Decoder[Any]] = {(): self.decoder}
        self.fetchers = [_fetcher(self.root, reading) for reading in self.readings]

    def for_record(self, first: bytes) -> tuple[msgspec.json.Decoder[Any], int]:
        """The decoder that also keeps the raw values of the other top-level keys of a record, as ``u0``, ``u1``, …,
        and their number. Records like the first one have no further keys."""
        try:
            known = self.root.members
            keys = tuple(key for key in _KEYS.decode(first) if key not in known and not _ESCAPED.search(key))
        except (msgspec.DecodeError, RecursionError):
            keys = ()
        if keys not in self._decoders:
            if len(self._decoders) > MOST_DECODERS:
                self._decoders.clear()
            assert self.root.struct is not None  # noqa: S101 - records are objects
            extra = {f"u{i}": key for i, key in enumerate(keys)}
            struct = msgspec.defstruct(
                "Record", [(name, Raw, NO_RAW) for name in extra], bases=(self.root.struct,), rename=extra,
                kw_only=True, gc=False,
            )  # fmt: skip
            self._decoders[keys] = msgspec.json.Decoder(struct)
        return self._decoders[keys], len(keys)

    def _type(self, node: Node) -> Any:
        """The msgspec type of a node's value, lists around it included."""
        if node.leaf is not None:
            assert node.reading is not None  # noqa: S101
            inner = typed(node.leaf, node.reading, self.structs)
        else:
            members: list[Any] = []
            for member in node.members.values():
                kind = self._type(member)
                if member.required:
                    members.append((member.attribute, kind))
                elif kind is Raw:
                    members.append((member.attribute, Raw, NO_RAW))
                else:
                    members.append((member.attribute, kind | None | UnsetType, UNSET))
            names = {
                member.attribute: _spelled(key, member.attribute) for key, member in node.members.items()
            }
            node.struct = msgspec.defstruct("Record", members, rename=names, kw_only=True, gc=False)
            inner = node.struct
        for _ in range(node.lists):
            inner = list[inner]  # type: ignore[valid-type]
        return inner


def _spelled(key: str, attribute: str) -> str:
    """The key as the decoder may look for it. One that it cannot be told is never found by it: a record that has it
    then has a key more than was read, and goes to the exact parser."""
    return f"\ue000 not to be spelled: {attribute}" if _ESCAPED.search(key) else key


def shapes(readings: Sequence[Reading]) -> list[Shape]:
    """The trees for these readings: one, unless two readings want different things of one value."""
    layers: list[list[Reading]] = []
    for reading in readings:
        for layer in layers:
            if _fits([*layer, reading]):
                layer.append(reading)
                break
        else:
            layers.append([reading])
    structs: dict[FieldType, type[msgspec.Struct]] = {}
    return [Shape(layer, structs) for layer in layers]


def typed(type_: FieldType, reading: Reading, structs: dict[FieldType, type[msgspec.Struct]]) -> Any:
    """The msgspec type of a value."""
    match type_.kind:
        case Kind.INTEGER:
            return INTEGER
        case Kind.NUMBER:
            return float
        case Kind.BOOLEAN:
            return bool
        case Kind.JSON:
            return Raw
        case Kind.STRUCT:
            return struct_of(type_, reading, structs)
        case Kind.MESSAGES:
            turns: Any = list[turn_struct(reading.field.message_keys)]  # type: ignore[misc]
            return str | turns if reading.field.text_turn else turns
        case _:
            item = element_of(type_)
            return str if item is None else list[typed(item, reading, structs)]  # type: ignore[misc]


def struct_of(
    type_: FieldType, reading: Reading, structs: dict[FieldType, type[msgspec.Struct]]
) -> type[msgspec.Struct]:
    """The struct of a struct type; its members are ``m0``, ``m1``, … in the type's order."""
    if type_ not in structs:
        members: list[Any] = []
        for i, (_, member) in enumerate(type_.fields):
            kind = typed(member, reading, structs)
            if not member.optional:
                members.append((f"m{i}", kind))
            elif kind is Raw:
                members.append((f"m{i}", Raw, NO_RAW))
            else:
                members.append((f"m{i}", kind | None | UnsetType, UNSET))
        names = {f"m{i}": name for i, (name, _) in enumerate(type_.fields)}
        structs[type_] = msgspec.defstruct("Members", members, rename=names, kw_only=True, gc=False)
    return structs[type_]


def _place(root: Node, reading: Reading) -> None:
    node = root
    inside = False
    for step in reading.steps:
        if step.key not in node.members:
            node.members[step.key] = Node(f"k{len(node.members)}", step.lists)
        node = node.members[step.key]
        # Below a list, an element without the value is a fault of that element.
        node.required |= reading.field.required or inside
        inside |= step.lists > 0
    node.leaf, node.reading = reading.leaf, reading


def _fits(readings: Sequence[Reading]) -> bool:
    """Whether no value is read in two ways."""
    ways: dict[tuple[str, ...], object] = {}
    for reading in readings:
        keys = tuple(step.key for step in reading.steps)
        for length in range(len(keys) + 1):
            lists = reading.steps[length - 1].lists if length else 0
            last = length == len(keys)
            what = (
                (lists, reading.leaf, reading.field.message_keys, reading.field.text_turn) if last else lists
            )
            if ways.setdefault(keys[:length], what) != what:
                return False
    return True


def _fetcher(root: Node, reading: Reading) -> Fetch:
    """Takes the values of a reading out of decoded records; None or UNSET where one is not there."""
    nodes = []
    node = root
    for step in reading.steps:
        node = node.members[step.key]
        nodes.append(node)
    if all(n.required for n in nodes[:-1]) and not any(n.lists for n in nodes):
        if not nodes:
            return lambda rows: rows
        get = attrgetter(".".join(n.attribute for n in nodes))
        return lambda rows: list(map(get, rows))
    follow = _way([(attrgetter(n.attribute), n.lists) for n in nodes])
    return lambda rows: list(map(follow, rows))


def _way(way: list[tuple[Callable[[Any], Any], int]]) -> Callable[[Any], Any]:
    get, lists = way[0]
    if len(way) == 1 and lists < 2:
        return get
    rest = _way(way[1:]) if len(way) > 1 else None
    deeper = any(count for _, count in way[1:])

    def follow(value: Any) -> Any:
        below = get(value)
        if below is None or below is UNSET:
            return None
        for _ in range(lists - 1):
            below = [item for part in below for item in part]
        if rest is None:
            return below
        if not lists:
            return rest(below)
        found = [rest(item) for item in below]
        return [item for part in found for item in part] if deeper else found

    return follow
