"""Strictly parsed JSON values become the values of a field, with a finding for everything that is wrong.

The converter works one record at a time, on the records that the typed decoder does not prove right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from pipeline.fields import Content, FieldType, Kind
from pipeline.findings import FindingCollector
from pipeline.reasons import Policy, Reason
from pipeline.values.json_strict import (
    IntegerText,
    NonFinite,
    NumberText,
    Object,
    json_kind,
    json_text,
    repeated_keys,
)
from pipeline.values.json_typed import Turn, struct_of
from pipeline.values.paths import FieldPath, Step, element_of
from pipeline.values.text_checks import describe_invalid, has_surrogate, without_surrogates

MISSING = object()
"""Stands for the value of an absent key."""

AS_SHOWN = {Reason.CONTENT_NOT_TEXT: Reason.CONTENT_AS_SHOWN, Reason.WORD_NOT_TEXT: Reason.WORD_NOT_TEXT}
"""Reason for a number read as text, by the field's reason for a value of another type."""

EXPECTED = {
    Kind.TEXT: "text",
    Kind.INTEGER: "an integer",
    Kind.NUMBER: "a number",
    Kind.BOOLEAN: "true or false",
    Kind.DATE: "an ISO date",
    Kind.DATETIME: "an ISO date and time",
    Kind.LIST: "a list",
    Kind.STRUCT: "an object",
    Kind.JSON: "JSON",
    Kind.WORDS: "a list of words",
    Kind.BOXES: "a list of boxes",
    Kind.LABELS: "a list of labels",
    Kind.TOKENS: "a list of integers",
    Kind.MESSAGES: "a list of turns",
}


class _Invalid(Exception):
    """The value has a finding, and the field is null in this record."""


@dataclass(slots=True)
class Converter:
    """Converts the values of one record at a time.

    Attributes:
        collector: receives the findings.
        policy: policy of a reason in this schema.
        structs: the struct of each struct type, shared with the typed decoder.
        record: id of the current record.
    """

    collector: FindingCollector
    policy: Callable[[Reason], Policy]
    structs: dict[FieldType, type[msgspec.Struct]]
    record: int = -1

    def convert(self, field_path: FieldPath, root: Any) -> Any:
        """The value at a path of a parsed record; None if it has a finding, or is optional and absent."""
        try:
            found = list(_values_along(root, field_path.steps, "$"))
            if field_path.element is None:
                path, value = found[0]
                return self._whole_value(field_path, value, path)
            if len(found) == 1 and found[0][1] in (MISSING, None) and "[" not in found[0][0]:
                return self._whole_value(field_path, found[0][1], found[0][0])
            return self._elements(field_path, field_path.element, found)
        except _Invalid:
            return None

    def _whole_value(self, field_path: FieldPath, value: Any, path: str) -> Any:
        if value is MISSING or value is None:
            if field_path.field.required:
                what = "missing" if value is MISSING else "null"
                self._report(field_path, field_path.field.missing, path, what, EXPECTED[field_path.type.kind])
            return None
        for where, key in repeated_keys(value, path):
            self._report(field_path, Reason.JSON_DUPLICATE_KEY, where, repr(key))
        return self._value(field_path, field_path.type, value, path)

    def _value(self, field_path: FieldPath, type_: FieldType, value: Any, path: str) -> Any:
        match type_.kind:
            case Kind.TEXT | Kind.DATE | Kind.DATETIME:
                return self._text(field_path, value, path)
            case Kind.INTEGER:
                return self._integer(field_path, value, path)
            case Kind.NUMBER:
                return self._number(field_path, value, path)
            case Kind.BOOLEAN:
                if not isinstance(value, bool):
                    raise self._report_wrong(field_path, type_, value, path)
                return value
            case Kind.JSON:
                return self._json(field_path, value, path)
            case Kind.STRUCT:
                return self._struct(field_path, type_, value, path)
            case Kind.BOXES:
                return self._list(field_path, type_, value, path, self._box)
            case Kind.MESSAGES:
                return self._messages(field_path, value, path)
            case _:
                item = element_of(type_)
                assert item is not None  # noqa: S101 - only list types are left
                return self._list(field_path, type_, value, path, lambda r, v, p: self._item(r, item, v, p))

    def _item(self, field_path: FieldPath, type_: FieldType, value: Any, path: str) -> Any:
        """One element of a list; null and an absent value are errors."""
        if value is None or value is MISSING:
            what = "missing" if value is MISSING else "null"
            if field_path.field.wrong is Reason.WORD_NOT_TEXT:
                self._report(field_path, Reason.WORD_NOT_TEXT, path, what, "text")
                if self.policy(Reason.WORD_NOT_TEXT) is Policy.REPAIR:
                    return ""  # a blank word, which a later stage drops with its box and label
                raise _Invalid
            raise self._report(field_path, field_path.field.wrong, path, what, EXPECTED[type_.kind])
        if field_path.type.kind is Kind.BOXES:
            return self._box(field_path, value, path)
        return self._value(field_path, type_, value, path)

    def _elements(self, field_path: FieldPath, type_: FieldType, found: list[tuple[str, Any]]) -> list[Any]:
        """The values at a path that goes through lists."""
        values, invalid = [], False
        for path, value in found:
            if path.endswith("]") and value is MISSING:
                continue  # no list, or an empty one, along the path
            for where, key in repeated_keys(value, path):
                self._report(field_path, Reason.JSON_DUPLICATE_KEY, where, repr(key))
            try:
                values.append(self._item(field_path, type_, value, path))
            except _Invalid:
                invalid = True
        if invalid:
            raise _Invalid
        return values

    def _list(
        self, field_path: FieldPath, type_: FieldType, value: Any, path: str, convert: Callable[..., Any]
    ) -> list[Any]:
        if not isinstance(value, list):
            reason = Reason.BBOX_UNPARSED if type_.kind is Kind.BOXES else Reason.VALUE_TYPE
            raise self._report(field_path, reason, path, _describe(value), EXPECTED[type_.kind])
        values, invalid = [], False
        for index, item in enumerate(value):
            try:
                values.append(convert(field_path, item, f"{path}[{index}]"))
            except _Invalid:
                invalid = True
        if invalid:
            raise _Invalid
        return values

    # Scalars
    def _text(self, field_path: FieldPath, value: Any, path: str) -> str:
        if isinstance(value, (IntegerText, NumberText)) and (
            field_path.field.as_shown or field_path.field.wrong is Reason.WORD_NOT_TEXT
        ):
            return self._as_shown(field_path, str(value), path)
        if isinstance(value, bool) and self._boolean_as_shown(field_path):
            return self._as_shown(field_path, str(value).lower(), path)
        if isinstance(value, NonFinite):
            raise self._report(field_path, Reason.JSON_NON_FINITE, path, str(value), "text")
        if not isinstance(value, str) or isinstance(value, (IntegerText, NumberText)):
            raise self._report_wrong(field_path, FieldType(Kind.TEXT), value, path)
        if has_surrogate(value):
            self._report(field_path, Reason.TEXT_INVALID_UNICODE, path, describe_invalid(value))
            return without_surrogates(value)
        return str(value)

    def _boolean_as_shown(self, field_path: FieldPath) -> bool:
        wrong = field_path.field.wrong
        return wrong is Reason.WORD_NOT_TEXT or (field_path.field.as_shown and wrong is Reason.VALUE_TYPE)

    def _as_shown(self, field_path: FieldPath, shown: str, path: str) -> str:
        reason = AS_SHOWN.get(field_path.field.wrong, Reason.VALUE_AS_SHOWN)
        self._report(field_path, reason, path, shown, "text")
        if self.policy(reason) is Policy.QUARANTINE:
            raise _Invalid
        return shown

    def _integer(self, field_path: FieldPath, value: Any, path: str) -> int:
        if isinstance(value, IntegerText):
            if len(value) < 40 and -(2**63) <= int(value) < 2**63:
                return int(value)
            raise self._report(field_path, Reason.JSON_INTEGER_OVERFLOW, path, value, "64 bits")
        if isinstance(value, NumberText):
            number = float(value)
            if number.is_integer() and abs(number) < 2**53 and _equals_integer(value, int(number)):
                self._report(field_path, Reason.INTEGER_FROM_DECIMAL, path, value, "an integer")
                return int(number)
        raise self._report_wrong(field_path, FieldType(Kind.INTEGER), value, path)

    def _number(self, field_path: FieldPath, value: Any, path: str) -> float:
        if isinstance(value, NonFinite):
            raise self._report(field_path, Reason.JSON_NON_FINITE, path, value, "a finite number")
        if not isinstance(value, (IntegerText, NumberText)):
            raise self._report_wrong(field_path, FieldType(Kind.NUMBER), value, path)
        if isinstance(value, IntegerText) and not (len(value) < 40 and -(2**63) <= int(value) < 2**63):
            raise self._report(field_path, Reason.JSON_INTEGER_OVERFLOW, path, value, "64 bits")
        number = float(value)
        if not math.isfinite(number):
            raise self._report(field_path, Reason.VALUE_NOT_FINITE, path, value, "a finite number")
        return number

    def _json(self, field_path: FieldPath, value: Any, path: str) -> str:
        text = json_text(value)
        if has_surrogate(text):
            self._report(field_path, Reason.TEXT_INVALID_UNICODE, path, describe_invalid(text))
            return without_surrogates(text)
        return text

    # Objects
    def _struct(self, field_path: FieldPath, type_: FieldType, value: Any, path: str) -> msgspec.Struct:
        if not isinstance(value, Object):
            raise self._report_wrong(field_path, type_, value, path)
        members: dict[str, Any] = {}
        invalid = False
        for i, (name, member) in enumerate(type_.fields):
            item = value.get(name, MISSING)
            members[f"m{i}"] = None
            if item is None or item is MISSING:
                if not member.optional:
                    what = "missing" if item is MISSING else "null"
                    self._report(
                        field_path, Reason.VALUE_MISSING, f"{path}.{name}", what, EXPECTED[member.kind]
                    )
                    invalid = True
                continue
            try:
                members[f"m{i}"] = self._value(field_path, member, item, f"{path}.{name}")
            except _Invalid:
                invalid = True
        if invalid:
            raise _Invalid
        return struct_of(type_, field_path, self.structs)(**members)

    def _box(self, field_path: FieldPath, value: Any, path: str) -> list[float]:
        """The numbers of one box, written as numbers, pairs, or objects with x and y. A later stage counts them."""
        if not isinstance(value, list):
            if value is None or isinstance(value, (bool, NonFinite)):
                raise self._report_not_finite(field_path, value, path)
            raise self._report(field_path, Reason.BBOX_UNPARSED, path, _describe(value), "a list of numbers")
        numbers: list[float] = []
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            if isinstance(item, Object) and item.keys() <= {"x", "y", "z"}:
                # Some programs leave out a coordinate that is 0.
                numbers += [
                    self._coordinate(field_path, item.get(k, IntegerText("0")), f"{where}.{k}") for k in "xy"
                ]
            elif isinstance(item, list):
                numbers += self._box(field_path, item, where)
            else:
                numbers.append(self._coordinate(field_path, item, where))
        return numbers

    def _coordinate(self, field_path: FieldPath, value: Any, path: str) -> float:
        if isinstance(value, (IntegerText, NumberText)) and math.isfinite(number := float(value)):
            return number
        raise self._report_not_finite(field_path, value, path)

    def _report_not_finite(self, field_path: FieldPath, value: Any, path: str) -> _Invalid:
        return self._report(field_path, Reason.BBOX_NOT_FINITE, path, _describe(value), "a finite number")

    def _messages(self, field_path: FieldPath, value: Any, path: str) -> Any:
        if field_path.field.text_turn:
            if isinstance(value, str) and not isinstance(value, (IntegerText, NumberText, NonFinite)):
                return self._text(field_path, value, path)
            if isinstance(value, Object):
                return [self._turn(field_path, value, path)]
        return self._list(field_path, field_path.type, value, path, self._turn)

    def _turn(self, field_path: FieldPath, value: Any, path: str) -> Turn:
        if not isinstance(value, Object):
            raise self._report(field_path, Reason.VALUE_TYPE, path, _describe(value), "a turn")
        turn = Turn()
        for part, names in field_path.field.message_keys:
            name = next((n for n in names if n in value), None)
            if name is not None:
                self._set_turn_part(field_path, turn, part, value[name], f"{path}.{name}")
        return turn

    def _set_turn_part(self, field_path: FieldPath, turn: Turn, part: str, value: Any, path: str) -> None:
        match part:
            case "content":
                turn.content, turn.content_kind = self._content(field_path, value, path)
            case "tool_calls":
                turn.tool_calls = None if value is None else self._json(field_path, value, path)
            case "train" if value is None or isinstance(value, bool):
                turn.train = value
            case "weight" if value is None or isinstance(value, (IntegerText, NumberText)):
                turn.weight = None if value is None else self._number(field_path, value, path)
            case "train" | "weight":
                what = "true or false" if part == "train" else "a number"
                raise self._report(field_path, Reason.VALUE_TYPE, path, _describe(value), what)
            case _:
                text = isinstance(value, str) and not isinstance(value, (IntegerText, NumberText, NonFinite))
                setattr(turn, part, self._text(field_path, value, path) if text else None)

    def _content(self, field_path: FieldPath, value: Any, path: str) -> tuple[str | None, str]:
        match value:
            case None:
                return None, Content.NULL.value
            case bool():
                return str(value).lower(), Content.BOOLEAN.value
            case NonFinite():
                raise self._report(field_path, Reason.JSON_NON_FINITE, path, value, "text")
            case IntegerText() | NumberText():
                return str(value), Content.NUMBER.value
            case str():
                return self._text(field_path, value, path), Content.TEXT.value
            case list():
                return self._json(field_path, value, path), Content.PARTS.value
            case _:
                return self._json(field_path, value, path), Content.OBJECT.value

    # Findings
    def _report_wrong(self, field_path: FieldPath, type_: FieldType, value: Any, path: str) -> _Invalid:
        container = field_path.type.kind in (Kind.WORDS, Kind.LABELS, Kind.BOXES) and "[" not in path
        reason = Reason.VALUE_TYPE if container else field_path.field.wrong
        if isinstance(value, NonFinite):
            reason = Reason.JSON_NON_FINITE
        self.collector.add(
            reason,
            field_path.field.name,
            self.record,
            path,
            _describe(value),
            EXPECTED[type_.kind],
            lost=True,
        )
        return _Invalid()

    def _report(
        self, field_path: FieldPath, reason: Reason, path: str, found: str, expected: str = ""
    ) -> _Invalid:
        """Report a finding on the current record; returns the exception that makes the field null."""
        self.collector.add(reason, field_path.field.name, self.record, path, str(found), expected)
        return _Invalid()


def _values_along(value: Any, steps: tuple[Step, ...], path: str) -> Iterator[tuple[str, Any]]:
    """Path and value of everything at the end of the steps; ``MISSING`` where the path ends early."""
    if not steps:
        yield path, value
        return
    step, rest = steps[0], steps[1:]
    here = f"{path}.{step.key}"
    if not isinstance(value, Object):
        yield here, None if value is None else MISSING
        return
    below = value.get(step.key, MISSING)
    yield from _elements_along(below, step.lists, rest, here)


def _elements_along(value: Any, lists: int, rest: tuple[Step, ...], path: str) -> Iterator[tuple[str, Any]]:
    if not lists:
        yield from _values_along(value, rest, path)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _elements_along(item, lists - 1, rest, f"{path}[{index}]")
    else:
        yield path, value if value is None or value is MISSING else MISSING


def _equals_integer(written: str, integer: int) -> bool:
    """Whether the digits spell this integer: a double may equal it where they do not (1e-400)."""
    try:
        return Decimal(written) == integer
    except InvalidOperation:  # an exponent of twenty digits
        return False


def _describe(value: Any) -> str:
    """A wrong value for a finding: its kind, and the value itself if it is a scalar."""
    if isinstance(value, (list, dict)) or value is None:
        return json_kind(value)
    return f"{json_kind(value)}: {json_text(value)}" if not isinstance(value, NonFinite) else str(value)
