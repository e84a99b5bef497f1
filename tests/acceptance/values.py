"""What must come out: words, boxes, labels, turns, records and columns of certified records."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.acceptance import readback
from tests.acceptance.case import Report
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Record

Actual = Callable[[Context, Record], Any]


def words(context: Context, record: Record) -> list[str]:
    """The words of a page, in order."""
    assert context.reader is not None
    return list(context.reader.words(record).values())


def bboxes(_: Context, record: Record) -> list[list[float]]:
    """One box a word, in order."""
    return list(readback.boxes(record).values())


def labels(_: Context, record: Record) -> list[int] | int | None:
    """One label a word, or the label of a row of a table, or those of its tokens."""
    if "word_ids" in record.samples[0]:
        return list(readback.labels(record).values())
    found: list[int] | int | None = record.samples[0].get("labels")
    return found


def messages(context: Context, record: Record) -> list[dict[str, str]] | None:
    """The turns, read back from the ids; the system turn a template brings along by itself is not one of them."""
    assert context.reader is not None
    sample = record.samples[0]
    turns = context.reader.turns(sample["input_ids"])
    if turns is None:
        return _spelled(context, sample)
    found = [{"role": role, "content": content} for role, content in turns if role != "tools"]
    template = str(context.reader.config.get("chat_template", ""))
    if found and found[0]["role"] == "system" and found[0]["content"] in template:
        return found[1:]
    return found


def _spelled(context: Context, sample: dict[str, Any]) -> list[dict[str, str]] | None:
    """Where the frame of turns is unknown: the kept record, if each turn's tokens spell its content."""
    assert context.reader is not None
    kept: list[dict[str, str]] = json.loads(sample["record"])["messages"]
    for turn, span in zip(kept, sample["turns"], strict=False):
        if turn["content"].strip() not in context.reader.text(
            sample["input_ids"][span["start"] : span["end"]]
        ):
            return None
    return kept


FIELDS: dict[str, Actual] = {
    "words": words,
    "bboxes": bboxes,
    "boxes": bboxes,
    "labels": labels,
    "messages": messages,
}


def check(context: Context, key: str, wanted: Any, report: Report, tolerance: float = 0) -> bool:
    """Compare one word of ``value``; False when it is not a word of this kind."""
    if key == "records":
        return _records(context, wanted, report)
    if isinstance(wanted, Mapping) and "exact" in wanted:
        return check(context, key, wanted["exact"], report, float(wanted.get("tolerance", tolerance or 1)))
    if key == "docs" and isinstance(wanted, Mapping):
        for name, inner in wanted.items():
            _document(context, str(name), inner, report, tolerance)
        return True
    if key == "clipped" and isinstance(wanted, Mapping):
        return _indexed_boxes(context, wanted, report)
    if key == "rows" and isinstance(wanted, list):
        is_layout = context.schema["kind"] == "layout"
        return _lines(context, wanted, report) if is_layout else _records(context, wanted, report)
    if not _checkable(context, key):
        return False
    if isinstance(wanted, Mapping) and any(context.is_id(str(name)) for name in wanted):
        for name, value in wanted.items():
            _one(context, str(name), key, value, report, tolerance)
        return True
    return _sole(context, key, wanted, report, tolerance)


def _document(
    context: Context, name: str, inner: Mapping[str, Any], report: Report, tolerance: float
) -> None:
    """The words of one document; its tolerance stands inside, beside (``d2_tolerance``) or nowhere."""
    beside = context.value.get(f"{name}_tolerance", tolerance)
    within = float(inner.get("tolerance", beside))
    for field, value in inner.items():
        if field == "exact":
            _one(context, name, "bboxes", value, report, within or 1)
        elif field != "tolerance":
            _one(context, name, field, value, report, within)


def _checkable(context: Context, key: str) -> bool:
    if key in ("words", "bboxes", "boxes"):
        return context.schema["kind"] == "layout"
    if key == "messages":
        return context.schema["kind"] == "chat"
    return key == "labels" or column_of(context, key) is not None


def column_of(context: Context, key: str) -> str | None:
    """The column a plural speaks of: ``texts`` is ``text``, ``groups`` is ``group``."""
    names = list(context.schema.get("columns", {}))
    for candidate in (key, key.removesuffix("s"), key.removesuffix("es"), key.replace("ies", "y")):
        if candidate in names:
            return candidate
    if key == "texts":
        return context.schema.get("table", {}).get("text")
    return None


def _one(context: Context, name: str, key: str, wanted: Any, report: Report, tolerance: float) -> None:
    """One record's value, where it is certified; whether it had to be is another question."""
    record = context.find(name)
    if record is None:
        report.fail(f"{name}: no such record came out")
    elif record.certified:
        actual = actual_of(context, key, record, wanted)
        if not same(context, key, actual, wanted, tolerance):
            report.fail(f"{name}: {key} {_short(actual)}, expected {_short(wanted)}")


def actual_of(context: Context, key: str, record: Record, wanted: Any = None) -> Any:
    """What a certified record holds under a word of the case; a table's labels as ids where ids are wanted."""
    column = column_of(context, key)
    items = wanted if isinstance(wanted, list) else [wanted]
    if key == "labels" and context.schema["kind"] == "table" and items and all(map(_is_number, items)):
        return record.samples[0].get("labels", record.samples[0].get(column or key))
    if key in FIELDS and not (key == "labels" and column and context.schema["kind"] == "table"):
        return FIELDS[key](context, record)
    return _cell(context, record, column or key, wanted)


def _cell(context: Context, record: Record, column: str, wanted: Any) -> Any:
    """A column's value; a label column that is itself called ``labels`` stands there as ids, whatever is wanted."""
    value = record.samples[0].get(column)
    if column != "labels" or not isinstance(wanted, str) or not isinstance(value, int):
        return value
    return context.schema["columns"][column]["allowed"][value]


def _sole(context: Context, key: str, wanted: Any, report: Report, tolerance: float) -> bool:
    """A value without an id: of the one record, or of all records laid end to end, or of each."""
    records = context.outcome.certified
    if not records:
        return True
    actual = [actual_of(context, key, record, wanted) for record in records]
    if len(actual) == 1 and same(context, key, actual[0], wanted, tolerance):
        return True
    joined = [item for value in actual if isinstance(value, list) for item in value]
    if any(same(context, key, value, wanted, tolerance) for value in (joined, actual)):
        return True
    for record, value in zip(records, actual, strict=True):
        if not same(context, key, value, wanted, tolerance):
            report.fail(f"row {record.place[2]}: {key} {_short(value)}, expected {_short(wanted)}")
    return True


def same(context: Context, key: str, actual: Any, wanted: Any, tolerance: float = 0) -> bool:
    """Whether a value is the expected one: numbers within the tolerance, labels by name or id, turns by content."""
    if key == "messages" and isinstance(wanted, str):
        return any(turn["content"].strip() == wanted.strip() for turn in actual or ())
    if key == "messages":
        folded = (lambda text: text) if context.reader is None else context.reader.folded
        return _turns(actual, folded) == _turns(wanted, folded)
    if key == "words" and context.reader is not None and isinstance(wanted, list):
        return [context.reader.folded(word) for word in wanted] == [
            context.reader.folded(word) for word in actual or ()
        ]
    if key == "labels" and isinstance(wanted, list) and isinstance(actual, list):
        names = context.label_names
        return [names.index(w) if w in names else w for w in wanted] == actual
    return equal(actual, wanted, tolerance)


def equal(actual: Any, wanted: Any, tolerance: float = 0) -> bool:
    """Deep equality, numbers within a tolerance; a whole number never equals a text."""
    if isinstance(wanted, list) and isinstance(actual, (list, tuple)):
        return len(actual) == len(wanted) and all(
            equal(a, w, tolerance) for a, w in zip(actual, wanted, strict=True)
        )
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return all(equal(actual.get(k), w, tolerance) for k, w in wanted.items())
    if isinstance(actual, datetime.date) and isinstance(wanted, str):
        return actual.isoformat() == wanted
    if _is_number(wanted) and _is_number(actual):
        return abs(float(actual) - float(wanted)) <= max(tolerance, 1e-9 * abs(float(wanted)))
    return type(actual) is type(wanted) and bool(actual == wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _turns(turns: Any, folded: Callable[[str], str]) -> list[tuple[str, str]]:
    """Roles and contents without edge white space, which many templates trim, in the tokenizer's form."""
    return [(str(t["role"]), folded(str(t.get("content") or "").strip())) for t in turns or ()]


def _records(context: Context, wanted: Any, report: Report) -> bool:
    """Rows of a table: by id where they have one, else in order."""
    items = list(wanted.items()) if isinstance(wanted, Mapping) else list(enumerate(wanted))
    certified = context.outcome.certified
    if not isinstance(wanted, Mapping):
        report.expect(
            len(certified) == len(items), f"{len(certified)} certified records, expected {len(items)}"
        )
    for position, (name, inner) in enumerate(items):
        named = str(inner.get(context.id_name, name)) if context.id_name else str(name)
        record = context.find(named) or (certified[position] if position < len(certified) else None)
        if record is None or not record.certified:
            report.fail(f"record {named} is not certified")
            continue
        for column, value in inner.items():
            actual = _cell(context, record, column, value)
            if not equal(actual, value):
                report.fail(f"{named}: {column} {_short(actual)}, expected {_short(value)}")
    return True


def _indexed_boxes(context: Context, wanted: Mapping[str, Any], report: Report) -> bool:
    """Boxes by the index of their word."""
    for record in context.outcome.certified:
        found = readback.boxes(record)
        for index, box in wanted.items():
            if not equal(found.get(int(index)), box):
                report.fail(f"box of word {index}: {found.get(int(index))}, expected {box}")
    return True


def _lines(context: Context, wanted: list[Any], report: Report) -> bool:
    """Lines with a box and a text, in order; the page is a square of ``width``, so that pixels can be compared."""
    side = float(context.schema["layout"].get("page", {}).get("width", 1000))
    tolerance = 0.0 if side == 1000 else side / 1000
    found = [
        (text, [c * side / 1000 for c in box])
        for record in context.outcome.certified
        for text, box in zip(words(context, record), bboxes(context, record), strict=True)
    ]
    report.expect(len(found) == len(wanted), f"{len(found)} lines certified, expected {len(wanted)}")
    for (text, box), line in zip(found, wanted, strict=False):
        if "text" in line:
            report.expect(text == line["text"], f"text {text!r}, expected {line['text']!r}")
        if "box" in line:
            report.expect(equal(box, line["box"], tolerance), f"box {box}, expected {line['box']}")
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else text[:157] + "…"
