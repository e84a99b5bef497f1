"""The typed decoder of a schema's records: nested msgspec structs that hold exactly what is read.

Each field becomes a member of a struct tree along its path. Values that msgspec decodes into the tree are right in
type; any other record is left to the exact parser. Two fields that want different things of one value get a tree
each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pipeline.fields import Content, FieldType, Kind
from pipeline.values.paths import FieldPath, element_of

if TYPE_CHECKING:
    import pyarrow as pa


# Turns of a conversation: the typed struct they are decoded into, and the columns they become.


MessageKeys = tuple[tuple[str, tuple[str, ...]], ...]

PARTS = ("role", "content", "name", "tool_calls", "tool_call_id", "train", "weight")
_TYPES: dict[str, Any] = {
    "train": bool | None | UnsetType,
    "weight": float | None | UnsetType,
    "tool_calls": None
    | UnsetType,  # a turn that calls tools is read by the exact parser, which keeps the JSON
}


@dataclass(slots=True)
class Turn:
    """One turn as the exact parser read it; see ``fields.message_dtype``."""

    role: str | None = None
    content: str | None = None
    content_kind: str = Content.MISSING.value
    name: str | None = None
    tool_calls: str | None = None
    tool_call_id: str | None = None
    train: bool | None = None
    weight: float | None = None


def turn_struct(keys: MessageKeys) -> type[msgspec.Struct]:
    """The struct of a turn: a member for each name that each part may have, such as ``role_0``, ``role_1``."""
    members: list[Any] = []
    names: dict[str, str] = {}
    for part, spellings in keys:
        for i, spelling in enumerate(spellings):
            members.append((f"{part}_{i}", _TYPES.get(part, str | None | UnsetType), UNSET))
            names[f"{part}_{i}"] = spelling
    return msgspec.defstruct("TypedTurn", members, rename=names, kw_only=True, gc=False)


def turn_columns(turns: list[Any], keys: MessageKeys) -> pa.Array:
    """Turns, typed or exact, as an Arrow struct array of ``fields.message_dtype()``."""
    import pyarrow as pa

    typed = [turn for turn in turns if not isinstance(turn, Turn)]
    found = {part: _first(typed, part, names) for part, names in keys}
    contents = found.get("content", [UNSET] * len(typed))
    found["content_kind"] = [_kind(content) for content in contents]
    values: dict[str, list[Any]] = {}
    for part in ("role", "content", "content_kind", *PARTS[2:]):
        column = [None if value is UNSET else value for value in found.get(part, [None] * len(typed))]
        if len(typed) != len(turns):
            rest = iter(column)
            column = [getattr(turn, part) if isinstance(turn, Turn) else next(rest) for turn in turns]
        values[part] = column
    types = {"train": pa.bool_(), "weight": pa.float64()}
    arrays = [pa.array(column, types.get(part, pa.large_string())) for part, column in values.items()]
    return pa.StructArray.from_arrays(arrays, list(values))


def keys_present(turns: list[Any], keys: MessageKeys) -> list[int]:
    """Number of known keys that each typed turn was decoded from."""
    attributes = [f"{part}_{i}" for part, names in keys for i in range(len(names))]
    counts = [0] * len(turns)
    for attribute in attributes:
        for place, turn in enumerate(turns):
            if getattr(turn, attribute) is not UNSET:
                counts[place] += 1
    return counts


def flat_turns(lists: list[Any]) -> list[Any]:
    """The elements of all lists, one after the other; None counts as no list."""
    return list(chain.from_iterable(item for item in lists if item is not None))


def _first(turns: list[Any], part: str, names: tuple[str, ...]) -> list[Any]:
    """The part's value under the first of its names that stands in each turn."""
    column = [getattr(turn, f"{part}_0") for turn in turns]
    for i in range(1, len(names)):
        if all(value is not UNSET for value in column):
            break
        column = [
            getattr(turn, f"{part}_{i}") if value is UNSET else value
            for turn, value in zip(turns, column, strict=True)
        ]
    return column


def _kind(content: Any) -> str:
    if content is UNSET:
        return Content.MISSING.value
    return Content.NULL.value if content is None else Content.TEXT.value


# The typed decoder of a schema's records: nested msgspec structs that hold exactly what is read.


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
        self.reading: FieldPath | None = None
        self.required = False
        self.struct: type[msgspec.Struct] | None = None


class RecordShape:
    """One tree: its readings, its decoder, and a fetcher a reading.

    ``root`` is None where the value itself is read (the path ``$`` of a cell).
    """

    def __init__(self, readings: Sequence[FieldPath], structs: dict[FieldType, type[msgspec.Struct]]) -> None:
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
            inner = value_type(node.leaf, node.reading, self.structs)
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


def record_shapes(readings: Sequence[FieldPath]) -> list[RecordShape]:
    """The trees for these readings: one, unless two readings want different things of one value."""
    layers: list[list[FieldPath]] = []
    for reading in readings:
        for layer in layers:
            if _fits([*layer, reading]):
                layer.append(reading)
                break
        else:
            layers.append([reading])
    structs: dict[FieldType, type[msgspec.Struct]] = {}
    return [RecordShape(layer, structs) for layer in layers]


def value_type(type_: FieldType, reading: FieldPath, structs: dict[FieldType, type[msgspec.Struct]]) -> Any:
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
            return str if item is None else list[value_type(item, reading, structs)]  # type: ignore[misc]


def struct_of(
    type_: FieldType, reading: FieldPath, structs: dict[FieldType, type[msgspec.Struct]]
) -> type[msgspec.Struct]:
    """The struct of a struct type; its members are ``m0``, ``m1``, … in the type's order."""
    if type_ not in structs:
        members: list[Any] = []
        for i, (_, member) in enumerate(type_.fields):
            kind = value_type(member, reading, structs)
            if not member.optional:
                members.append((f"m{i}", kind))
            elif kind is Raw:
                members.append((f"m{i}", Raw, NO_RAW))
            else:
                members.append((f"m{i}", kind | None | UnsetType, UNSET))
        names = {f"m{i}": name for i, (name, _) in enumerate(type_.fields)}
        structs[type_] = msgspec.defstruct("Members", members, rename=names, kw_only=True, gc=False)
    return structs[type_]


def _place(root: Node, reading: FieldPath) -> None:
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


def _fits(readings: Sequence[FieldPath]) -> bool:
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


def _fetcher(root: Node, reading: FieldPath) -> Fetch:
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
