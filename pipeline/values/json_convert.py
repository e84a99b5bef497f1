"""Exact JSON values become the values of a field, with a finding for everything that is not as it should be.

Works one record at a time; only records that the typed decoder refuses come here.
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
from pipeline.values.json_strict import Literal, Object, Real, Whole, json_kind, repeats, written_number
from pipeline.values.json_typed import Turn, struct_of
from pipeline.values.paths import FieldPath, Step, element_of
from pipeline.values.text_checks import describe_invalid, has_surrogate, without_surrogates

MISSING = object()
"""Stands for a key that is not there."""

AS_SHOWN = {Reason.CONTENT_NOT_TEXT: Reason.CONTENT_AS_SHOWN, Reason.WORD_NOT_TEXT: Reason.WORD_NOT_TEXT}
"""The reason for a number taken as text, by the field's reason for a value of another type."""

EXPECTED = {
    Kind.TEXT: "text", Kind.INTEGER: "an integer", Kind.NUMBER: "a number", Kind.BOOLEAN: "true or false",
    Kind.DATE: "an ISO date", Kind.DATETIME: "an ISO date and time", Kind.LIST: "a list",
    Kind.STRUCT: "an object", Kind.JSON: "JSON", Kind.WORDS: "a list of words", Kind.BOXES: "a list of boxes",
    Kind.LABELS: "a list of labels", Kind.TOKENS: "a list of integers", Kind.MESSAGES: "a list of turns",
}  # fmt: skip


class _Bad(Exception):
    """The value has a finding; the field is null in this record."""


@dataclass(slots=True)
class Converter:
    """Converts the values of one record after the other.

    Attributes:
        hits: where findings go.
        policy: policy of a reason in this schema.
        structs: structs of the schema's struct types, shared with the typed decoder.
        record: id of the record at hand.
    """

    hits: FindingCollector
    policy: Callable[[Reason], Policy]
    structs: dict[FieldType, type[msgspec.Struct]]
    record: int = -1

    def field(self, reading: FieldPath, root: Any) -> Any:
        """The value of a reading in a decoded record; None where it has a finding, or is optional and absent."""
        try:
            found = list(_follow(root, reading.steps, "$"))
            if reading.element is None:
                path, value = found[0]
                return self._top(reading, value, path)
            if len(found) == 1 and found[0][1] in (MISSING, None) and "[" not in found[0][0]:
                return self._top(reading, found[0][1], found[0][0])
            return self._each(reading, reading.element, found)
        except _Bad:
            return None

    def _top(self, reading: FieldPath, value: Any, path: str) -> Any:
        if value is MISSING or value is None:
            if reading.field.required:
                what = "missing" if value is MISSING else "null"
                self._hit(reading, reading.field.missing, path, what, EXPECTED[reading.type.kind])
            return None
        for where, key in repeats(value, path):
            self._hit(reading, Reason.JSON_DUPLICATE_KEY, where, repr(key))
        return self._value(reading, reading.type, value, path)

    def _value(self, reading: FieldPath, type_: FieldType, value: Any, path: str) -> Any:
        match type_.kind:
            case Kind.TEXT | Kind.DATE | Kind.DATETIME:
                return self._text(reading, value, path)
            case Kind.INTEGER:
                return self._integer(reading, value, path)
            case Kind.NUMBER:
                return self._number(reading, value, path)
            case Kind.BOOLEAN:
                if not isinstance(value, bool):
                    raise self._wrong(reading, type_, value, path)
                return value
            case Kind.JSON:
                return self._json(reading, value, path)
            case Kind.STRUCT:
                return self._struct(reading, type_, value, path)
            case Kind.BOXES:
                return self._list(reading, type_, value, path, self._box)
            case Kind.MESSAGES:
                return self._messages(reading, value, path)
            case _:
                item = element_of(type_)
                assert item is not None  # noqa: S101 - only list types are left
                return self._list(reading, type_, value, path, lambda r, v, p: self._item(r, item, v, p))

    def _item(self, reading: FieldPath, type_: FieldType, value: Any, path: str) -> Any:
        """An element of a list, where null and nothing are no value either."""
        if value is None or value is MISSING:
            what = "missing" if value is MISSING else "null"
            if reading.field.wrong is Reason.WORD_NOT_TEXT:
                self._hit(reading, Reason.WORD_NOT_TEXT, path, what, "text")
                if self.policy(Reason.WORD_NOT_TEXT) is Policy.REPAIR:
                    return ""  # a blank word: dropped with its box and label
                raise _Bad
            raise self._hit(reading, reading.field.wrong, path, what, EXPECTED[type_.kind])
        if reading.type.kind is Kind.BOXES:
            return self._box(reading, value, path)
        return self._value(reading, type_, value, path)

    def _each(self, reading: FieldPath, type_: FieldType, found: list[tuple[str, Any]]) -> list[Any]:
        """The values a path through lists leads to."""
        values, bad = [], False
        for path, value in found:
            if path.endswith("]") and value is MISSING:
                continue  # an empty list on the way
            for where, key in repeats(value, path):
                self._hit(reading, Reason.JSON_DUPLICATE_KEY, where, repr(key))
            try:
                values.append(self._item(reading, type_, value, path))
            except _Bad:
                bad = True
        if bad:
            raise _Bad
        return values

    def _list(
        self, reading: FieldPath, type_: FieldType, value: Any, path: str, convert: Callable[..., Any]
    ) -> list[Any]:
        if not isinstance(value, list):
            reason = Reason.BBOX_UNPARSED if type_.kind is Kind.BOXES else Reason.VALUE_TYPE
            raise self._hit(reading, reason, path, _shown(value), EXPECTED[type_.kind])
        values, bad = [], False
        for place, item in enumerate(value):
            try:
                values.append(convert(reading, item, f"{path}[{place}]"))
            except _Bad:
                bad = True
        if bad:
            raise _Bad
        return values

    # ── scalars ──────────────────────────────────────────────────────────────────────────────────────────
    def _text(self, reading: FieldPath, value: Any, path: str) -> str:
        if isinstance(value, (Whole, Real)) and (
            reading.field.as_shown or reading.field.wrong is Reason.WORD_NOT_TEXT
        ):
            return self._as_shown(reading, str(value), path)
        if isinstance(value, bool) and self._boolean_as_shown(reading):
            return self._as_shown(reading, str(value).lower(), path)
        if isinstance(value, Literal):
            raise self._hit(reading, Reason.JSON_NON_FINITE, path, str(value), "text")
        if not isinstance(value, str) or isinstance(value, (Whole, Real)):
            raise self._wrong(reading, FieldType(Kind.TEXT), value, path)
        if has_surrogate(value):
            self._hit(reading, Reason.TEXT_INVALID_UNICODE, path, describe_invalid(value))
            return without_surrogates(value)
        return str(value)

    def _boolean_as_shown(self, reading: FieldPath) -> bool:
        wrong = reading.field.wrong
        return wrong is Reason.WORD_NOT_TEXT or (reading.field.as_shown and wrong is Reason.VALUE_TYPE)

    def _as_shown(self, reading: FieldPath, shown: str, path: str) -> str:
        reason = AS_SHOWN.get(reading.field.wrong, Reason.VALUE_AS_SHOWN)
        self._hit(reading, reason, path, shown, "text")
        if self.policy(reason) is Policy.QUARANTINE:
            raise _Bad
        return shown

    def _integer(self, reading: FieldPath, value: Any, path: str) -> int:
        if isinstance(value, Whole):
            if len(value) < 40 and -(2**63) <= int(value) < 2**63:
                return int(value)
            raise self._hit(reading, Reason.JSON_INTEGER_OVERFLOW, path, value, "64 bits")
        if isinstance(value, Real):
            number = float(value)
            if number.is_integer() and abs(number) < 2**53 and _is(value, int(number)):
                self._hit(reading, Reason.INTEGER_FROM_DECIMAL, path, value, "an integer")
                return int(number)
        raise self._wrong(reading, FieldType(Kind.INTEGER), value, path)

    def _number(self, reading: FieldPath, value: Any, path: str) -> float:
        if isinstance(value, Literal):
            raise self._hit(reading, Reason.JSON_NON_FINITE, path, value, "a finite number")
        if not isinstance(value, (Whole, Real)):
            raise self._wrong(reading, FieldType(Kind.NUMBER), value, path)
        if isinstance(value, Whole) and not (len(value) < 40 and -(2**63) <= int(value) < 2**63):
            raise self._hit(reading, Reason.JSON_INTEGER_OVERFLOW, path, value, "64 bits")
        number = float(value)
        if not math.isfinite(number):
            raise self._hit(reading, Reason.VALUE_NOT_FINITE, path, value, "a finite number")
        return number

    def _json(self, reading: FieldPath, value: Any, path: str) -> str:
        text = written_number(value)
        if has_surrogate(text):
            self._hit(reading, Reason.TEXT_INVALID_UNICODE, path, describe_invalid(text))
            return without_surrogates(text)
        return text

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────
    def _struct(self, reading: FieldPath, type_: FieldType, value: Any, path: str) -> msgspec.Struct:
        if not isinstance(value, Object):
            raise self._wrong(reading, type_, value, path)
        members: dict[str, Any] = {}
        bad = False
        for i, (name, member) in enumerate(type_.fields):
            item = value.get(name, MISSING)
            members[f"m{i}"] = None
            if item is None or item is MISSING:
                if not member.optional:
                    what = "missing" if item is MISSING else "null"
                    self._hit(reading, Reason.VALUE_MISSING, f"{path}.{name}", what, EXPECTED[member.kind])
                    bad = True
                continue
            try:
                members[f"m{i}"] = self._value(reading, member, item, f"{path}.{name}")
            except _Bad:
                bad = True
        if bad:
            raise _Bad
        return struct_of(type_, reading, self.structs)(**members)

    def _box(self, reading: FieldPath, value: Any, path: str) -> list[float]:
        """Numbers of one box: flat, or in vertices (objects, pairs), flattened. Their count is judged later."""
        if not isinstance(value, list):
            if value is None or isinstance(value, (bool, Literal)):
                raise self._not_finite(reading, value, path)
            raise self._hit(reading, Reason.BBOX_UNPARSED, path, _shown(value), "a list of numbers")
        numbers: list[float] = []
        for place, item in enumerate(value):
            where = f"{path}[{place}]"
            if isinstance(item, Object) and item.keys() <= {"x", "y", "z"}:
                # A vertex leaves out a coordinate that is 0.
                numbers += [self._coordinate(reading, item.get(k, Whole("0")), f"{where}.{k}") for k in "xy"]
            elif isinstance(item, list):
                numbers += self._box(reading, item, where)
            else:
                numbers.append(self._coordinate(reading, item, where))
        return numbers

    def _coordinate(self, reading: FieldPath, value: Any, path: str) -> float:
        if isinstance(value, (Whole, Real)) and math.isfinite(number := float(value)):
            return number
        raise self._not_finite(reading, value, path)

    def _not_finite(self, reading: FieldPath, value: Any, path: str) -> _Bad:
        return self._hit(reading, Reason.BBOX_NOT_FINITE, path, _shown(value), "a finite number")

    def _messages(self, reading: FieldPath, value: Any, path: str) -> Any:
        if reading.field.text_turn:
            if isinstance(value, str) and not isinstance(value, (Whole, Real, Literal)):
                return self._text(reading, value, path)
            if isinstance(value, Object):
                return [self._turn(reading, value, path)]
        return self._list(reading, reading.type, value, path, self._turn)

    def _turn(self, reading: FieldPath, value: Any, path: str) -> Turn:
        if not isinstance(value, Object):
            raise self._hit(reading, Reason.VALUE_TYPE, path, _shown(value), "a turn")
        turn = Turn()
        for part, names in reading.field.message_keys:
            name = next((n for n in names if n in value), None)
            if name is not None:
                self._part(reading, turn, part, value[name], f"{path}.{name}")
        return turn

    def _part(self, reading: FieldPath, turn: Turn, part: str, value: Any, path: str) -> None:
        match part:
            case "content":
                turn.content, turn.content_kind = self._content(reading, value, path)
            case "tool_calls":
                turn.tool_calls = None if value is None else self._json(reading, value, path)
            case "train" if value is None or isinstance(value, bool):
                turn.train = value
            case "weight" if value is None or isinstance(value, (Whole, Real)):
                turn.weight = None if value is None else self._number(reading, value, path)
            case "train" | "weight":
                what = "true or false" if part == "train" else "a number"
                raise self._hit(reading, Reason.VALUE_TYPE, path, _shown(value), what)
            case _:
                text = isinstance(value, str) and not isinstance(value, (Whole, Real, Literal))
                setattr(turn, part, self._text(reading, value, path) if text else None)

    def _content(self, reading: FieldPath, value: Any, path: str) -> tuple[str | None, str]:
        match value:
            case None:
                return None, Content.NULL.value
            case bool():
                return str(value).lower(), Content.BOOLEAN.value
            case Literal():
                raise self._hit(reading, Reason.JSON_NON_FINITE, path, value, "text")
            case Whole() | Real():
                return str(value), Content.NUMBER.value
            case str():
                return self._text(reading, value, path), Content.TEXT.value
            case list():
                return self._json(reading, value, path), Content.PARTS.value
            case _:
                return self._json(reading, value, path), Content.OBJECT.value

    # ── findings ─────────────────────────────────────────────────────────────────────────────────────────
    def _wrong(self, reading: FieldPath, type_: FieldType, value: Any, path: str) -> _Bad:
        container = reading.type.kind in (Kind.WORDS, Kind.LABELS, Kind.BOXES) and "[" not in path
        reason = Reason.VALUE_TYPE if container else reading.field.wrong
        if isinstance(value, Literal):
            reason = Reason.JSON_NON_FINITE
        self.hits.add(
            reason, reading.field.name, self.record, path, _shown(value), EXPECTED[type_.kind], lost=True
        )
        return _Bad()

    def _hit(self, reading: FieldPath, reason: Reason, path: str, found: str, expected: str = "") -> _Bad:
        """Report a finding on the record at hand; gives the exception that makes the field null."""
        self.hits.add(reason, reading.field.name, self.record, path, str(found), expected)
        return _Bad()


def _follow(value: Any, steps: tuple[Step, ...], path: str) -> Iterator[tuple[str, Any]]:
    """Path and value of everything the steps lead to; ``MISSING`` where the way ends early."""
    if not steps:
        yield path, value
        return
    step, rest = steps[0], steps[1:]
    here = f"{path}.{step.key}"
    if not isinstance(value, Object):
        yield here, None if value is None else MISSING
        return
    below = value.get(step.key, MISSING)
    yield from _elements(below, step.lists, rest, here)


def _elements(value: Any, lists: int, rest: tuple[Step, ...], path: str) -> Iterator[tuple[str, Any]]:
    if not lists:
        yield from _follow(value, rest, path)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _elements(item, lists - 1, rest, f"{path}[{place}]")
    else:
        yield path, value if value is None or value is MISSING else MISSING


def _is(written: str, whole: int) -> bool:
    """Whether the digits as written are this integer: a double may be one where they are not (1e-400)."""
    try:
        return Decimal(written) == whole
    except InvalidOperation:  # an exponent of twenty digits
        return False


def _shown(value: Any) -> str:
    """A wrong value in words, with what stands there where that is short."""
    if isinstance(value, (list, dict)) or value is None:
        return json_kind(value)
    return f"{json_kind(value)}: {written_number(value)}" if not isinstance(value, Literal) else str(value)
