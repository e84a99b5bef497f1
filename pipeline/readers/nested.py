"""The steps of `read: reshape:`, which make records from nested documents. Pure functions on JSON values.

A step leaves a value of another shape than it expects unchanged; a later stage then finds what the record misses.
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
MOST_DEPTH = 200
"""Deepest nesting that ``descend`` follows."""


def reshape(document: Value, steps: Sequence[declared.Step]) -> list[Value]:
    """The records of a document."""
    records = document if isinstance(document, list) else [document]
    for step in steps:
        records = [new_record for record in records for new_record in _apply_step(record, step)]
    return records


def _apply_step(record: Value, step: declared.Step) -> list[Value]:
    if not isinstance(record, dict):
        return [record]
    match step:
        case declared.Each():
            return _each_item(record, step)
        case declared.Group():
            return _group_items(record, step)
        case declared.Where():
            _filter_items(record, step)
        case declared.Merge():
            _merge_items(record, step)
        case declared.Join() | declared.Nest():
            _join_lists(record, step)
        case declared.Lift():
            found = (
                value
                for item in _objects_at(record, step.list)
                if (value := value_at(item, step.take)) is not None
            )
            record[step.into] = exact_number(next(found, None))
        case declared.Descend():
            record[step.into] = list(_descendants(record, step.key, step.equals, MOST_DEPTH))
        case declared.Spread():
            _spread_labels(record, step)
        case _:
            for item in _objects_at(record, step.list):
                item[step.into] = _new_value(record, item, step)
    return [record]


def value_at(value: Value, path: str) -> Value:
    """The value at a path, None without one; a list if the path goes through lists."""
    return _value_along(value, parse_path(path))


def strict_json(text: str) -> Value:
    """Parse JSON. Raises ``ValueError`` for text that is not JSON, for NaN and infinity, and for a repeated key."""
    return json.loads(text, object_pairs_hook=_unique_members, parse_constant=_refuse_literal)


def _unique_members(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _refuse_literal(literal: str) -> Value:
    raise ValueError(f"the literal {literal}")


def exact_number(value: Value) -> Value:
    """The number that a text spells, else the value itself."""
    if isinstance(value, str) and NUMBER.fullmatch(text := value.strip()):
        return float(text) if any(mark in text for mark in ".eE") else int(text)
    return value


def _value_along(value: Value, keys: Sequence[Key]) -> Value:
    for index, key in enumerate(keys):
        value = value.get(key.key) if isinstance(value, dict) else None
        if key.lists:
            for _ in range(key.lists - 1):
                value = [part for items in _as_list(value) for part in _as_list(items)]
            found = [_value_along(item, keys[index + 1 :]) for item in _as_list(value)]
            deeper = any(later.lists for later in keys[index + 1 :])
            return [part for items in found for part in _as_list(items)] if deeper else found
        if value is None:
            return None
    return value


def _as_list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


def _holders(record: Value, path: str) -> Iterator[tuple[dict[str, Value], str]]:
    """The objects that hold the list at a path, and its key in them; several if the path goes through lists."""
    *keys, last = parse_path(path)
    found = _value_along(record, keys) if keys else [record]
    for holder in found if isinstance(found, list) else [found]:
        if isinstance(holder, dict):
            yield holder, last.key


def _objects_at(record: Value, path: str) -> list[dict[str, Value]]:
    """The objects in the list at a path."""
    found: list[Value] = []
    for holder, key in _holders(record, path):
        found += _as_list(holder.get(key))
    return [item for item in found if isinstance(item, dict)]


def _each_item(record: dict[str, Value], step: declared.Each) -> list[Value]:
    kept = {name: value_at(record, path) for name, path in step.keep.items()}
    return [{**item, **kept} for item in _objects_at(record, step.list)]


def _group_items(record: dict[str, Value], step: declared.Group) -> list[Value]:
    groups: dict[str, list[Value]] = {}
    for item in _objects_at(record, step.list):
        groups.setdefault(repr(value_at(item, step.key)), []).append(item)
    name = parse_path(step.key)[-1].key
    return [{name: value_at(items[0], step.key), step.into: items} for items in groups.values()]


def _filter_items(record: dict[str, Value], step: declared.Where) -> None:
    def wanted(item: Value) -> bool:
        value = value_at(item, step.key)
        return value is not None if step.equals is None else value == step.equals

    if step.into is not None:
        record[step.into] = [item for item in _objects_at(record, step.list) if wanted(item)]
        return
    for holder, key in _holders(record, step.list):
        holder[key] = [item for item in _as_list(holder.get(key)) if wanted(item)]


def _merge_items(record: dict[str, Value], step: declared.Merge) -> None:
    for holder, key in _holders(record, step.list):
        merged: dict[str, Value] = {}
        for index, item in enumerate(_as_list(holder.get(key))):
            name = value_at(item, step.key)
            whole = merged.setdefault(repr(name) if name is not None else f"#{index}", {})
            if isinstance(item, dict):
                _merge_objects(whole, item)
        holder[key] = list(merged.values())


def _merge_objects(merged: dict[str, Value], more: dict[str, Value]) -> None:
    """Add the members of ``more``; objects merge, and of two other values the first stays."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            _merge_objects(merged[key], value)
        elif isinstance(value, dict):
            merged.setdefault(key, dict(value))
        else:
            merged.setdefault(key, value)


def _join_lists(record: dict[str, Value], step: declared.Join | declared.Nest) -> None:
    by_key: dict[str, list[Value]] = {}
    for other in _objects_at(record, step.other):
        by_key.setdefault(repr(value_at(other, step.other_key)), []).append(other)
    for item in _objects_at(record, step.list):
        matches = by_key.get(repr(value_at(item, step.key)), [])
        item[step.into] = matches if isinstance(step, declared.Nest) else next(iter(matches), None)


def _descendants(value: Value, key: str, equals: str, depth: int) -> Iterator[dict[str, Value]]:
    """Objects below a value with this member, in order, without those inside of another such object."""
    inner = value.values() if isinstance(value, dict) else _as_list(value)
    for item in inner if depth else ():
        if isinstance(item, dict) and item.get(key) == equals:
            yield item
        elif isinstance(item, dict | list):
            yield from _descendants(item, key, equals, depth - 1)


def _spread_labels(record: dict[str, Value], step: declared.Spread) -> None:
    for entity in _objects_at(record, step.list):
        label = value_at(entity, step.take)
        words = [word for word in _as_list(entity.get(step.over)) if isinstance(word, dict)]
        outside = label is None or label in step.outside
        name = str(label).upper() if step.upper else str(label)
        started = False
        for word in words:
            if outside or step.scheme == "none":
                word[step.into] = "O" if outside else name
                continue
            blank = not str(word.get(step.word) or "").strip()
            word[step.into] = f"I-{name}" if started or blank else f"B-{name}"
            started |= not blank


def _new_value(
    record: Value,
    item: Value,
    step: declared.Pick
    | declared.Number
    | declared.Parse
    | declared.Match
    | declared.Concat
    | declared.Anchor,
) -> Value:
    """The value that a step adds to an element."""
    match step:
        case declared.Pick():
            values = [value_at(item, path) for path in step.take]
            return (
                None if all(value is None for value in values) else [exact_number(value) for value in values]
            )
        case declared.Number():
            return exact_number(value_at(item, step.take))
        case declared.Parse():
            return _parse_json(value_at(item, step.take))
        case declared.Match():
            text = value_at(item, step.take)
            found = re.search(step.pattern, text) if isinstance(text, str) else None
            return None if found is None else [exact_number(group) for group in found.groups()]
        case declared.Concat():
            return _concat_texts(item, step)
        case declared.Anchor():
            return _anchor_text(value_at(record, step.text), value_at(item, step.take))


def _parse_json(text: Value) -> Value:
    try:
        return strict_json(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _concat_texts(item: Value, step: declared.Concat) -> str | None:
    for path in (step.take,) if isinstance(step.take, str) else step.take:
        value = value_at(item, path)
        parts = value if isinstance(value, list) else [value]
        flat = [part for items in parts for part in (items if isinstance(items, list) else [items])]
        if texts := [part for part in flat if isinstance(part, str)]:
            return step.between.join(texts)
    return None


def _anchor_text(text: Value, segments: Value) -> str | None:
    if not isinstance(text, str):
        return None
    parts = []
    for segment in _as_list(segments):
        if not isinstance(segment, dict):
            return None
        start, end = (exact_number(segment.get(key, 0)) for key in ("startIndex", "endIndex"))
        if not isinstance(start, int) or not isinstance(end, int) or not 0 <= start <= end <= len(text):
            return None
        parts.append(text[start:end])
    return "".join(parts) if parts else None
