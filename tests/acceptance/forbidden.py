"""What must never be certified: ``must_not_equal``, ``must_not_be``, ``must_not_contain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.acceptance.case import Report
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Record
from tests.acceptance.values import FIELDS, actual_of, column_of, equal


def check(context: Context, key: str, wanted: Any, report: Report) -> None:
    """Fail when a certified record is, or contains, what the case forbids."""
    contain = key == "must_not_contain"
    for record, field, banned in _targets(context, wanted):
        fields = [field] if field else _fields(context)
        if _is_control(context, banned):
            fields = []  # spelled in a text it is text: that no such id stands in a turn is judged in ``health``
        for name in fields:
            actual = actual_of(context, name, record)
            hit = _contains(actual, banned) if contain else _is(actual, banned)
            if hit:
                report.fail(f"row {record.place[2]}: certified with {name} {str(actual)[:80]!r}")
        if contain and isinstance(banned, str) and not field and not _is_control(context, banned):
            report.expect(
                banned not in _decoded(context, record),
                f"row {record.place[2]}: tokens spell {banned[:60]!r}",
            )


def _is_control(context: Context, text: Any) -> bool:
    """Whether a text is the spelling of a control token."""
    if context.reader is None or not isinstance(text, str):
        return False
    return context.reader.engine.token_to_id(text) in context.reader.controls


def _targets(context: Context, wanted: Any) -> Iterator[tuple[Record, str | None, Any]]:
    """Record, field (None: any) and forbidden value, whichever way the case nests them."""
    certified = context.outcome.certified
    if isinstance(wanted, Mapping):
        for name, inner in wanted.items():
            if context.is_id(str(name)):
                record = context.find(str(name))
                if record is not None and record.certified:
                    if isinstance(inner, Mapping) and set(inner) <= {*FIELDS, *_fields(context)}:
                        yield from ((record, field, value) for field, value in inner.items())
                    else:
                        yield from ((record, None, value) for value in _choices(inner))
            elif name in FIELDS or column_of(context, str(name)):
                if isinstance(inner, Mapping) and any(context.is_id(str(one)) for one in inner):
                    for one, value in inner.items():
                        record = context.find(str(one))
                        if record is not None and record.certified:
                            yield record, str(name), value
                else:
                    yield from ((record, str(name), inner) for record in certified)
        return
    for record in certified:
        yield from ((record, None, value) for value in _choices(wanted))


def _choices(value: Any) -> list[Any]:
    """A list of texts forbids each of them; any other value forbids itself."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return [*value, value]
    return [value]


def _fields(context: Context) -> list[str]:
    """All fields a certified record of this kind can be looked up by."""
    by_kind = {"layout": ["words", "bboxes", "labels"], "chat": ["messages"]}
    return [*by_kind.get(context.schema["kind"], []), *context.schema.get("columns", {})]


def _is(actual: Any, banned: Any) -> bool:
    if equal(actual, banned):
        return True
    if isinstance(actual, list) and not isinstance(banned, list):
        return any(_is(item, banned) for item in actual)
    if isinstance(actual, Mapping) and isinstance(banned, str):
        return any(_is(item, banned) for item in actual.values())
    if isinstance(actual, list) and _is_box(banned):
        return any(equal(item, banned) for item in actual)
    return False


def _is_box(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(isinstance(v, (int, float)) for v in value)


def _contains(actual: Any, banned: Any) -> bool:
    if isinstance(actual, str) and isinstance(banned, str):
        return banned in actual
    if isinstance(actual, list):
        return any(equal(item, banned) or _contains(item, banned) for item in actual)
    if isinstance(actual, Mapping):
        return any(_contains(item, banned) for item in actual.values())
    return equal(actual, banned)


def _decoded(context: Context, record: Record) -> str:
    """The text of all tokens, control tokens left out: those the template sets are no content."""
    if context.reader is None or "input_ids" not in record.samples[0]:
        return ""
    controls = context.reader.controls
    return "\n".join(
        context.reader.text([t for t in sample["input_ids"] if t not in controls])
        for sample in record.samples
    )
