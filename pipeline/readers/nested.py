"""The declared steps that make records of nested documents. Pure functions on JSON values.

A value of another shape than a step expects is left as it stands: what is missing then is found on the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.schema import reshape as declared
from pipeline.values.paths import Step as Key
from pipeline.values.paths import parse_path

Value = Any
"""A JSON value."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
DEPTH = 200
"""Deepest nesting that ``descend`` follows."""


def reshape(document: Value, plan: Sequence[declared.Step]) -> list[Value]:
    """The records of a document."""
    records = document if isinstance(document, list) else [document]
    for step in plan:
        records = [made for record in records for made in _apply(record, step)]
    return records


def _apply(record: Value, step: declared.Step) -> list[Value]:
    if not isinstance(record, dict):
        return [record]
    match step:
        case declared.Each():
            return _each(record, step)
        case declared.Group():
            return _group(record, step)
        case declared.Where():
            _where(record, step)
        case declared.Merge():
            _merge(record, step)
        case declared.Join() | declared.Nest():
            _match_up(record, step)
        case declared.Lift():
            found = (
                value
                for item in _items(record, step.list)
                if (value := value_at(item, step.take)) is not None
            )
            record[step.into] = exact_number(next(found, None))
        case declared.Descend():
            record[step.into] = list(_below(record, step.key, step.equals, DEPTH))
        case declared.Spread():
            _spread(record, step)
        case _:
            for item in _items(record, step.list):
                item[step.into] = _made(record, item, step)
    return [record]


def value_at(value: Value, path: str) -> Value:
    """What stands at a path, None where nothing does; a list where the path goes through lists."""
    return _follow(value, parse_path(path))


def strict_json(text: str) -> Value:
    """A JSON value. Raises ``ValueError`` for what is no JSON, for NaN and for a key that stands twice."""
    return json.loads(text, object_pairs_hook=_members, parse_constant=_no_number)


def _members(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_number(literal: str) -> Value:
    raise ValueError(f"the literal {literal}")


def exact_number(value: Value) -> Value:
    """The number that a text spells, else the value itself."""
    if isinstance(value, str) and NUMBER.fullmatch(text := value.strip()):
        return float(text) if any(mark in text for mark in ".eE") else int(text)
    return value


def _follow(value: Value, way: Sequence[Key]) -> Value:
    for index, key in enumerate(way):
        value = value.get(key.key) if isinstance(value, dict) else None
        if key.lists:
            for _ in range(key.lists - 1):
                value = [part for items in _listed(value) for part in _listed(items)]
            found = [_follow(item, way[index + 1 :]) for item in _listed(value)]
            deeper = any(later.lists for later in way[index + 1 :])
            return [part for items in found for part in _listed(items)] if deeper else found
        if value is None:
            return None
    return value


def _listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _holders(record: Value, path: str) -> Iterator[tuple[dict[str, Value], str]]:
    """The objects that hold the list at a path, and its key; several where the path goes through lists."""
    *way, last = parse_path(path)
    found = _follow(record, way) if way else [record]
    for holder in found if isinstance(found, list) else [found]:
        if isinstance(holder, dict):
            yield holder, last.key


def _items(record: Value, path: str) -> list[dict[str, Value]]:
    """The objects in the list at a path."""
    found: list[Value] = []
    for holder, key in _holders(record, path):
        found += _listed(holder.get(key))
    return [item for item in found if isinstance(item, dict)]


def _each(record: dict[str, Value], step: declared.Each) -> list[Value]:
    kept = {name: value_at(record, path) for name, path in step.keep.items()}
    return [{**item, **kept} for item in _items(record, step.list)]


def _group(record: dict[str, Value], step: declared.Group) -> list[Value]:
    groups: dict[str, list[Value]] = {}
    for item in _items(record, step.list):
        groups.setdefault(repr(value_at(item, step.key)), []).append(item)
    name = parse_path(step.key)[-1].key
    return [{name: value_at(items[0], step.key), step.into: items} for items in groups.values()]


def _where(record: dict[str, Value], step: declared.Where) -> None:
    def wanted(item: Value) -> bool:
        value = value_at(item, step.key)
        return value is not None if step.equals is None else value == step.equals

    if step.into is not None:
        record[step.into] = [item for item in _items(record, step.list) if wanted(item)]
        return
    for holder, key in _holders(record, step.list):
        holder[key] = [item for item in _listed(holder.get(key)) if wanted(item)]


def _merge(record: dict[str, Value], step: declared.Merge) -> None:
    for holder, key in _holders(record, step.list):
        merged: dict[str, Value] = {}
        for index, item in enumerate(_listed(holder.get(key))):
            name = value_at(item, step.key)
            whole = merged.setdefault(repr(name) if name is not None else f"#{index}", {})
            if isinstance(item, dict):
                _into(whole, item)
        holder[key] = list(merged.values())


def _into(whole: dict[str, Value], more: dict[str, Value]) -> None:
    """Members of objects join; of two other values the first stays."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(whole.get(key), dict):
            _into(whole[key], value)
        elif isinstance(value, dict):
            whole.setdefault(key, dict(value))
        else:
            whole.setdefault(key, value)


def _match_up(record: dict[str, Value], step: declared.Join | declared.Nest) -> None:
    others: dict[str, list[Value]] = {}
    for other in _items(record, step.other):
        others.setdefault(repr(value_at(other, step.other_key)), []).append(other)
    for item in _items(record, step.list):
        found = others.get(repr(value_at(item, step.key)), [])
        item[step.into] = found if isinstance(step, declared.Nest) else next(iter(found), None)


def _below(value: Value, key: str, equals: str, depth: int) -> Iterator[dict[str, Value]]:
    """Objects below a value with this member, in order; what lies within such an object is its own."""
    inner = value.values() if isinstance(value, dict) else _listed(value)
    for item in inner if depth else ():
        if isinstance(item, dict) and item.get(key) == equals:
            yield item
        elif isinstance(item, dict | list):
            yield from _below(item, key, equals, depth - 1)


def _spread(record: dict[str, Value], step: declared.Spread) -> None:
    for entity in _items(record, step.list):
        label = value_at(entity, step.take)
        words = [word for word in _listed(entity.get(step.over)) if isinstance(word, dict)]
        outside = label is None or label in step.outside
        name = str(label).upper() if step.upper else str(label)
        begun = False
        for word in words:
            if outside or step.scheme == "none":
                word[step.into] = "O" if outside else name
                continue
            blank = not str(word.get(step.word) or "").strip()
            word[step.into] = f"I-{name}" if begun or blank else f"B-{name}"
            begun |= not blank


def _made(
    record: Value,
    item: Value,
    step: declared.Pick
    | declared.Number
    | declared.Parse
    | declared.Match
    | declared.Concat
    | declared.Anchor,
) -> Value:
    """The new value of an element."""
    match step:
        case declared.Pick():
            values = [value_at(item, path) for path in step.take]
            return (
                None if all(value is None for value in values) else [exact_number(value) for value in values]
            )
        case declared.Number():
            return exact_number(value_at(item, step.take))
        case declared.Parse():
            return _parsed(value_at(item, step.take))
        case declared.Match():
            text = value_at(item, step.take)
            found = re.search(step.pattern, text) if isinstance(text, str) else None
            return None if found is None else [exact_number(group) for group in found.groups()]
        case declared.Concat():
            return _joined(item, step)
        case declared.Anchor():
            return _anchored(value_at(record, step.text), value_at(item, step.take))


def _parsed(text: Value) -> Value:
    try:
        return strict_json(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _joined(item: Value, step: declared.Concat) -> str | None:
    for path in (step.take,) if isinstance(step.take, str) else step.take:
        value = value_at(item, path)
        parts = value if isinstance(value, list) else [value]
        flat = [part for items in parts for part in (items if isinstance(items, list) else [items])]
        if texts := [part for part in flat if isinstance(part, str)]:
            return step.between.join(texts)
    return None


def _anchored(text: Value, segments: Value) -> str | None:
    if not isinstance(text, str):
        return None
    parts = []
    for segment in _listed(segments):
        if not isinstance(segment, dict):
            return None
        start, end = (exact_number(segment.get(key, 0)) for key in ("startIndex", "endIndex"))
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end <= len(text):
            return None
        parts.append(text[start:end])
    return "".join(parts) if parts else None
