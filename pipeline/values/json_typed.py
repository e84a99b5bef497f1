"""The typed decoder of a schema's records: nested msgspec structs with exactly the members that the schema reads.

Each field becomes a member of a struct tree along its path. A record that msgspec decodes into the tree has the right
types; the strict parser (``json_strict``) reads every other record. Two fields that read one value as different types
get separate trees.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, Raw, UnsetType

from pipeline.fields import Content, FieldType, Kind
from pipeline.values.paths import FieldPath, element_of

# Turns of a conversation


MessageKeys = tuple[tuple[str, tuple[str, ...]], ...]

TURN_PARTS = ("role", "content", "name", "tool_calls", "tool_call_id", "train", "weight")
_PART_TYPES: dict[str, Any] = {
    "train": bool | None | UnsetType,
    "weight": float | None | UnsetType,
    "tool_calls": None | UnsetType,  # the strict parser reads a turn with tool calls: it keeps their JSON
}


@dataclass(slots=True)
class Turn:
    """One turn as the strict parser reads it; the columns are those of ``fields.message_dtype``."""

    role: str | None = None
    content: str | None = None
    content_kind: str = Content.MISSING.value
    name: str | None = None
    tool_calls: str | None = None
    tool_call_id: str | None = None
    train: bool | None = None
    weight: float | None = None


def turn_struct(keys: MessageKeys) -> type[msgspec.Struct]:
    """The struct of a turn: one member for each name of each part, such as ``role_0`` and ``role_1``."""
    members: list[Any] = []
    names: dict[str, str] = {}
    for part, spellings in keys:
        for i, spelling in enumerate(spellings):
            members.append((f"{part}_{i}", _PART_TYPES.get(part, str | None | UnsetType), UNSET))
            names[f"{part}_{i}"] = spelling
    return msgspec.defstruct("TypedTurn", members, rename=names, kw_only=True, gc=False)


def turn_columns(turns: list[Any], keys: MessageKeys) -> pa.Array:
    """Turns of either parser (typed structs or ``Turn``) as an Arrow struct array of ``fields.message_dtype()``."""
    typed = [turn for turn in turns if not isinstance(turn, Turn)]
    found = {part: _first_present(typed, part, names) for part, names in keys}
    contents = found.get("content", [UNSET] * len(typed))
    found["content_kind"] = [_content_kind(content) for content in contents]
    values: dict[str, list[Any]] = {}
    for part in ("role", "content", "content_kind", *TURN_PARTS[2:]):
        column = [None if value is UNSET else value for value in found.get(part, [None] * len(typed))]
        if len(typed) != len(turns):
            rest = iter(column)
            column = [getattr(turn, part) if isinstance(turn, Turn) else next(rest) for turn in turns]
        values[part] = column
    types = {"train": pa.bool_(), "weight": pa.float64()}
    arrays = [pa.array(column, types.get(part, pa.large_string())) for part, column in values.items()]
    return pa.StructArray.from_arrays(arrays, list(values))


def keys_present(turns: list[Any], keys: MessageKeys) -> list[int]:
    """Number of known keys that each typed turn has in its JSON."""
    attributes = [f"{part}_{i}" for part, names in keys for i in range(len(names))]
    counts = [0] * len(turns)
    for attribute in attributes:
        for index, turn in enumerate(turns):
            if getattr(turn, attribute) is not UNSET:
                counts[index] += 1
    return counts


def _first_present(turns: list[Any], part: str, names: tuple[str, ...]) -> list[Any]:
    """The value of a part in each turn, under the first of its names that the turn has; else UNSET."""
    column = [getattr(turn, f"{part}_0") for turn in turns]
    for i in range(1, len(names)):
        if all(value is not UNSET for value in column):
            break
        column = [
            getattr(turn, f"{part}_{i}") if value is UNSET else value
            for turn, value in zip(turns, column, strict=True)
        ]
    return column


def _content_kind(content: Any) -> str:
    if content is UNSET:
        return Content.MISSING.value
    return Content.NULL.value if content is None else Content.TEXT.value


# The struct tree of a record


Getter = Callable[[list[Any]], list[Any]]
"""Takes one member, or a member of a member, from each struct."""
ABSENT_RAW = Raw(b"")
"""Default of a raw member whose key is absent."""
DECODER_CACHE_SIZE = 64
_ESCAPED_CHARACTERS = re.compile(r'["\\\x00-\x1f]')
"""Characters that JSON escapes: msgspec does not match a key that holds one."""
_TOP_LEVEL_KEYS = msgspec.json.Decoder(dict[str, Raw])
INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ShapeNode:
    """A node of the struct tree: an object with members, or a leaf whose value is read."""

    __slots__ = ("attribute", "field_path", "leaf", "lists", "members", "required", "struct")

    def __init__(self, attribute: str = "", lists: int = 0) -> None:
        self.attribute, self.lists = attribute, lists
        self.members: dict[str, ShapeNode] = {}
        self.leaf: FieldType | None = None
        self.field_path: FieldPath | None = None
        self.required = False
        self.struct: type[msgspec.Struct] | None = None


class RecordShape:
    """One struct tree: the paths it reads, its decoder, and one getter a path.

    ``root`` is None where the value itself is read (the path ``$`` of a cell).
    """

    def __init__(self, paths: Sequence[FieldPath], structs: dict[FieldType, type[msgspec.Struct]]) -> None:
        self.paths = tuple(paths)
        self.structs = structs
        self.root = ShapeNode()
        for field_path in self.paths:
            _add_path(self.root, field_path)
        self.type = self._type(self.root)
        self.decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self.type)
        self._decoders: dict[tuple[str, ...], msgspec.json.Decoder[Any]] = {(): self.decoder}
        self.getters = [_getter(self.root, field_path) for field_path in self.paths]

    def for_record(self, first: bytes) -> tuple[msgspec.json.Decoder[Any], int]:
        """A decoder that also keeps the raw values of the unread top-level keys of ``first``, as ``u0``, ``u1``, …, and
        their number. Records with the keys of the first one then have no key that is not decoded."""
        try:
            members = self.root.members
            keys = tuple(
                key
                for key in _TOP_LEVEL_KEYS.decode(first)
                if key not in members and not _ESCAPED_CHARACTERS.search(key)
            )
        except (msgspec.DecodeError, RecursionError):
            keys = ()
        if keys not in self._decoders:
            if len(self._decoders) > DECODER_CACHE_SIZE:
                self._decoders.clear()
            assert self.root.struct is not None  # noqa: S101 - records are objects
            extra = {f"u{i}": key for i, key in enumerate(keys)}
            struct = msgspec.defstruct(
                "Record",
                [(name, Raw, ABSENT_RAW) for name in extra],
                bases=(self.root.struct,),
                rename=extra,
                kw_only=True,
                gc=False,
            )
            self._decoders[keys] = msgspec.json.Decoder(struct)
        return self._decoders[keys], len(keys)

    def _type(self, node: ShapeNode) -> Any:
        """The msgspec type of a node's value, with the lists around it."""
        if node.leaf is not None:
            assert node.field_path is not None  # noqa: S101
            inner = value_type(node.leaf, node.field_path, self.structs)
        else:
            members: list[Any] = []
            for member in node.members.values():
                kind = self._type(member)
                if member.required:
                    members.append((member.attribute, kind))
                elif kind is Raw:
                    members.append((member.attribute, Raw, ABSENT_RAW))
                else:
                    members.append((member.attribute, kind | None | UnsetType, UNSET))
            names = {
                member.attribute: _decodable_key(key, member.attribute)
                for key, member in node.members.items()
            }
            node.struct = msgspec.defstruct("Record", members, rename=names, kw_only=True, gc=False)
            inner = node.struct
        for _ in range(node.lists):
            inner = list[inner]  # type: ignore[valid-type]
        return inner


def _decodable_key(key: str, attribute: str) -> str:
    """The key that the decoder looks for. msgspec cannot match a key with escaped characters: a placeholder that no
    record has replaces it. A record with the key then has more keys than were decoded; the strict parser reads it."""
    return f"\ue000 not to be spelled: {attribute}" if _ESCAPED_CHARACTERS.search(key) else key


def record_shapes(paths: Sequence[FieldPath]) -> list[RecordShape]:
    """The struct trees for these paths: one, unless two paths read one value as different types."""
    layers: list[list[FieldPath]] = []
    for field_path in paths:
        for layer in layers:
            if _agree([*layer, field_path]):
                layer.append(field_path)
                break
        else:
            layers.append([field_path])
    structs: dict[FieldType, type[msgspec.Struct]] = {}
    return [RecordShape(layer, structs) for layer in layers]


def value_type(
    type_: FieldType, field_path: FieldPath, structs: dict[FieldType, type[msgspec.Struct]]
) -> Any:
    """The msgspec type of a value of this field type."""
    match type_.kind:
        case Kind.INTEGER:
            return INT64
        case Kind.NUMBER:
            return float
        case Kind.BOOLEAN:
            return bool
        case Kind.JSON:
            return Raw
        case Kind.STRUCT:
            return struct_of(type_, field_path, structs)
        case Kind.MESSAGES:
            turns: Any = list[turn_struct(field_path.field.message_keys)]  # type: ignore[misc]
            return str | turns if field_path.field.text_turn else turns
        case _:
            item = element_of(type_)
            return str if item is None else list[value_type(item, field_path, structs)]  # type: ignore[misc]


def struct_of(
    type_: FieldType, field_path: FieldPath, structs: dict[FieldType, type[msgspec.Struct]]
) -> type[msgspec.Struct]:
    """The struct of a struct type; its members are ``m0``, ``m1``, … in the type's order."""
    if type_ not in structs:
        members: list[Any] = []
        for i, (_, member) in enumerate(type_.fields):
            kind = value_type(member, field_path, structs)
            if not member.optional:
                members.append((f"m{i}", kind))
            elif kind is Raw:
                members.append((f"m{i}", Raw, ABSENT_RAW))
            else:
                members.append((f"m{i}", kind | None | UnsetType, UNSET))
        names = {f"m{i}": name for i, (name, _) in enumerate(type_.fields)}
        structs[type_] = msgspec.defstruct("Members", members, rename=names, kw_only=True, gc=False)
    return structs[type_]


def _add_path(root: ShapeNode, field_path: FieldPath) -> None:
    node = root
    below_list = False
    for step in field_path.steps:
        if step.key not in node.members:
            node.members[step.key] = ShapeNode(f"k{len(node.members)}", step.lists)
        node = node.members[step.key]
        # Below a list the value is required: an element without it is an error of that element.
        node.required |= field_path.field.required or below_list
        below_list |= step.lists > 0
    node.leaf, node.field_path = field_path.leaf, field_path


def _agree(paths: Sequence[FieldPath]) -> bool:
    """Whether the paths fit one tree: no value is read as two different types."""
    read_as: dict[tuple[str, ...], object] = {}
    for field_path in paths:
        keys = tuple(step.key for step in field_path.steps)
        for length in range(len(keys) + 1):
            lists = field_path.steps[length - 1].lists if length else 0
            last = length == len(keys)
            wanted = (
                (lists, field_path.leaf, field_path.field.message_keys, field_path.field.text_turn)
                if last
                else lists
            )
            if read_as.setdefault(keys[:length], wanted) != wanted:
                return False
    return True


def _getter(root: ShapeNode, field_path: FieldPath) -> Getter:
    """Takes the values at a path from decoded records; None or UNSET where a record has none."""
    nodes = []
    node = root
    for step in field_path.steps:
        node = node.members[step.key]
        nodes.append(node)
    if all(n.required for n in nodes[:-1]) and not any(n.lists for n in nodes):
        if not nodes:
            return lambda rows: rows
        get = attrgetter(".".join(n.attribute for n in nodes))
        return lambda rows: list(map(get, rows))
    follow = _chain([(attrgetter(n.attribute), n.lists) for n in nodes])
    return lambda rows: list(map(follow, rows))


def _chain(keys: list[tuple[Callable[[Any], Any], int]]) -> Callable[[Any], Any]:
    get, lists = keys[0]
    if len(keys) == 1 and lists < 2:
        return get
    rest = _chain(keys[1:]) if len(keys) > 1 else None
    deeper = any(count for _, count in keys[1:])

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
