"""The values a field is read from: one path as a rule; boxes of some tables have a column a coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.cells.paths import Step, steps
from pipeline.fields import Field, FieldType, Kind

NUMBER = FieldType(Kind.NUMBER)


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of a record.

    Attributes:
        field: the field it belongs to, and ``index`` its place among the fields.
        part: which of the field's columns, -1 when there is one only.
        steps: where the value lies.
        type: what it must be: the field's type, or for a part a list of numbers.
        element: type of one element, when the path goes through lists; the values are then gathered into one list.
    """

    field: Field
    index: int
    part: int
    steps: tuple[Step, ...]
    type: FieldType
    element: FieldType | None

    @property
    def path(self) -> str:
        """The path in JSON notation."""
        return "$" + "".join(map(str, self.steps))

    @property
    def leaf(self) -> FieldType:
        """Type of what stands at the end of the path."""
        return self.element or self.type


def readings(fields: Sequence[Field]) -> tuple[Reading, ...]:
    """The values to read for these fields, in their order. Raises ``ValueError`` for a path that cannot be."""
    found = []
    for index, field in enumerate(fields):
        paths = (field.path,) if isinstance(field.path, str) else field.path
        for part, path in enumerate(paths):
            type_ = field.type if len(paths) == 1 else FieldType(Kind.LIST, item=NUMBER)
            way = steps(path)
            many = sum(step.lists for step in way)
            element = element_of(type_) if many else None
            if many and element is None:
                raise ValueError(f"{path!r} leads to a list, {field.name!r} is {type_.kind}")
            found.append(Reading(field, index, part if len(paths) > 1 else -1, way, type_, element))
    return tuple(found)


def element_of(type_: FieldType) -> FieldType | None:
    """Type of one element of a list type; None for other types."""
    match type_.kind:
        case Kind.LIST:
            return type_.item
        case Kind.WORDS:
            return FieldType(Kind.TEXT)
        case Kind.BOXES:
            return FieldType(Kind.LIST, item=NUMBER)
        case Kind.LABELS:
            return FieldType(Kind.INTEGER if type_.ids else Kind.TEXT)
        case Kind.TOKENS:
            return FieldType(Kind.INTEGER)
        case _:
            return None
