"""A run compared with what a case expects of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.acceptance import forbidden, health, invariants, pixels, values
from tests.acceptance.case import Report, is_verdict
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Record

CERTIFIED = frozenset({"accept", "repair", "flag"})
SPOKEN = frozenset(
    {"note", "declared", "bad_byte_line", "exit_code_nonzero", "certified_rows", "max_len", "total"}
)
"""Words that are handled with others, or say nothing to check."""


def compare(context: Context) -> Report:
    """All of it; the report says what is wrong and what nothing could check."""
    report = Report()
    wanted = set(context.case.expect.split("_or_"))
    # Exit 3 without any record is no refusal of records: there was nothing to read.
    failed = context.run.code not in (0, 3) or (context.run.code == 3 and not context.outcome.records)
    if context.run.traceback:
        report.fail("a traceback reached the user")
    if wanted == {"error"}:
        _error(context, report)
    elif failed and "error" in wanted:
        report.expect(not context.outcome.samples, "an error, and yet something is certified")
        return report
    elif failed and not _names_files(context):
        report.fail(f"exit {context.run.code}: {_message(context)}")
        return report
    _verdicts(context, wanted, report)
    _counts(context, report)
    tolerance = float(context.value.get("tolerance", 0))
    for key, value in context.value.items():
        _word(context, str(key), value, report, tolerance)
    health.check(context, report)
    return report


def _names_files(context: Context) -> bool:
    return isinstance(context.value.get("files"), Mapping)


def _message(context: Context) -> str:
    return " ".join(context.run.said.split())[-300:]


def _error(context: Context, report: Report) -> None:
    report.expect(context.run.code != 0, "exit code 0, expected an error")
    report.expect(not context.outcome.samples, "an error, and yet something is certified")
    messages = context.run.err.count("error:")
    report.expect(messages == 1, f"{messages} messages on stderr, expected one")


def _verdicts(context: Context, wanted: set[str], report: Report) -> None:
    """The verdict of each named record, else of all."""
    named = context.case.named_rows()
    for name, verdict in named.items():
        record = context.find(name)
        if record is None:
            report.expect("error" in verdict or "skip" in verdict, f"{name}: no such record came out")
        elif not allowed(record, verdict):
            report.fail(f"{name}: {stated(record)}, expected {verdict}")
    if named or not wanted <= {*CERTIFIED, "quarantine", "error"} or wanted == {"error"}:
        return
    for record in context.outcome.records:
        if not allowed(record, context.case.expect):
            report.fail(f"row {record.place[2]}: {stated(record)}, expected {context.case.expect}")
    report.expect(bool(context.outcome.records), "no record came out")


def allowed(record: Record, verdict: str) -> bool:
    """Whether a record went where the verdict lets it go."""
    choices = set(verdict.split("_or_"))
    return bool(choices & CERTIFIED) if record.certified else "quarantine" in choices


def stated(record: Record) -> str:
    """Where a record went, and why."""
    return "certified" if record.certified else f"quarantined ({', '.join(record.reasons)})"


def _counts(context: Context, report: Report) -> None:
    value, outcome = context.value, context.outcome
    certified, quarantined = len(outcome.certified), len(outcome.quarantined)
    if isinstance(value.get("total"), int):
        report.expect(
            certified + quarantined == value["total"], f"{certified} + {quarantined}, not {value['total']}"
        )
    for key, actual in (
        ("certified", certified),
        ("certified_rows", certified),
        ("quarantined", quarantined),
    ):
        if isinstance(value.get(key), int):
            report.expect(actual == value[key], f"{key} {actual}, expected {value[key]}")
    if (least := value.get("quarantined_min")) is not None:
        report.expect(quarantined >= least, f"{quarantined} quarantined, expected at least {least}")


def _word(context: Context, key: str, value: Any, report: Report, tolerance: float) -> None:
    """One word of ``value``."""
    if (
        key in SPOKEN
        or (key.endswith("_tolerance") and key.removesuffix("_tolerance") in context.value.get("docs", {}))
        or key in ("tolerance", "quarantined_min")
        or (isinstance(value, str) and is_verdict(value))
    ):
        return
    if key in _SPECIAL:
        _SPECIAL[key](context, value, report)
    elif key in pixels.WORDS:
        pixels.check(context, key, value, report, tolerance)
    elif key.startswith("must_not_"):
        forbidden.check(context, key, value, report)
    elif key == "exact":
        _exact(context, value, report, tolerance or 1)
    elif key == "rows" and isinstance(value, Mapping):
        return
    elif isinstance(value, Mapping) and context.is_id(key):
        _of_record(context, key, value, report, tolerance)
    elif key in ("certified", "quarantined", "certified_rows") and isinstance(value, int):
        return
    elif not values.check(context, key, value, report, tolerance):
        report.unchecked.append(key)


def _of_record(
    context: Context, name: str, value: Mapping[str, Any], report: Report, tolerance: float
) -> None:
    """Words nested under a record's id."""
    for key, inner in value.items():
        if key in pixels.WORDS:
            pixels.check(context, key, {name: inner}, report, tolerance)
        elif not values.check(context, key, {name: inner}, report, tolerance):
            report.unchecked.append(f"{name}.{key}")


def _exact(context: Context, value: Any, report: Report, tolerance: float) -> None:
    """Real values: the whole numbers that came out must be within the tolerance of them."""
    if isinstance(value, Mapping) and not any(context.is_id(str(key)) for key in value):
        for key, inner in value.items():
            values.check(context, key, inner, report, tolerance)
    else:
        values.check(context, "bboxes", value, report, tolerance)


def _if_repaired(context: Context, value: Any, report: Report) -> None:
    """Holds for what was certified only; texts stand for whatever text a record of the kind has."""
    tolerance = float(context.value.get("tolerance", 0))
    for key, inner in value.items():
        if not context.is_id(key):
            if not values.check(context, key, inner, report, tolerance):
                report.unchecked.append(f"if_repaired.{key}")
            continue
        record = context.find(key)
        if record is None or not record.certified:
            continue
        if isinstance(inner, Mapping):
            _of_record(context, key, inner, report, tolerance)
        else:
            field = {"chat": "messages", "layout": "words"}.get(context.schema["kind"]) or _text_column(
                context
            )
            values.check(context, field, {key: inner}, report, tolerance)


def _text_column(context: Context) -> str:
    columns = context.schema.get("columns", {})
    return "text" if "text" in columns else next(iter(columns), "text")


def _ids(context: Context, value: Any, report: Report) -> None:
    wanted = [str(one) for one in value]
    report.expect(context.certified_ids == wanted, f"certified {context.certified_ids}, expected {wanted}")


def _some_ids(context: Context, value: Any, report: Report) -> None:
    """These are certified; others may be, where their own verdict allows it."""
    if isinstance(value, int):
        return
    missing = [str(one) for one in value if str(one) not in context.certified_ids]
    report.expect(not missing, f"not certified: {missing}")
    if not context.case.named_rows():
        extra = [one for one in context.certified_ids if one not in {str(v) for v in value}]
        report.expect(not extra, f"certified beyond {value}: {extra}")


def _quarantined_ids(context: Context, value: Any, report: Report) -> None:
    if isinstance(value, int):
        return
    for one in value:
        record = context.find(str(one))
        report.expect(record is not None and not record.certified, f"{one} is not in the quarantine")


def _quarantined_lines(context: Context, value: Any, report: Report) -> None:
    lines = sorted(record.place[2] for record in context.outcome.quarantined)
    report.expect(lines == sorted(value), f"quarantined lines {lines}, expected {sorted(value)}")


def _line_numbers(context: Context, value: Any, report: Report) -> None:
    for name, line in value.items():
        record = context.find(str(name))
        found = record.place[2] if record else None
        report.expect(found == line, f"{name}: line {found}, expected {line}")


def _numbers_named(context: Context, value: Any, report: Report) -> None:
    """Numbers that the reasons of each record must name (lengths, counts of fields)."""
    for name, numbers in value.items():
        record = context.find(str(name))
        given = set(re.findall(r"\d+", record.details)) if record else set()
        for number in {str(n) for n in (numbers if isinstance(numbers, list) else [numbers])}:
            report.expect(number in given, f"{name}: the reasons do not name {number}")


def _named_everywhere(context: Context, value: Any, report: Report) -> None:
    for record in context.outcome.quarantined:
        given = re.findall(r"-?\d+(?:\.\d+)?|\w[\w-]*", record.details)
        report.expect(str(value) in given, f"row {record.place[2]}: the reasons do not name {value}")


def _files(context: Context, value: Any, report: Report) -> None:
    """Verdict by file: read and certified, an error that names it, or passed over."""
    if not isinstance(value, Mapping):
        return
    notes = {source: slug for slug, source, *_ in context.outcome.predicate.get("notes", ())}
    for name, verdict in value.items():
        records = [r for r in context.outcome.records if r.place[0] == name]
        choices = set(str(verdict).split("_or_"))
        if "error" in choices and not records:
            report.expect(context.run.code != 0, f"{name}: exit code 0, expected an error")
            report.expect(name in context.run.said or name in notes, f"{name} is not named")
        elif choices & {"skip", "ignore", "skipped", "ignored"} and not records:
            report.expect(name in notes or name in context.run.said, f"{name} was passed over in silence")
        else:
            fine = bool(records) and all(allowed(r, verdict) for r in records)
            report.expect(
                fine or "mixed" in choices, f"{name}: {[stated(r) for r in records][:3]}, expected {verdict}"
            )


def _files_read(context: Context, value: Any, report: Report) -> None:
    read = sorted({entry["source"] for entry in context.outcome.predicate.get("partitions", ())})
    report.expect(read == sorted(value), f"read {read}, expected {sorted(value)}")


def _sheet(context: Context, value: Any, report: Report) -> None:
    sheets = sorted({record.place[1] for record in context.outcome.records})
    report.expect(sheets == [value], f"sheets {sheets}, expected {value}")


def _types(context: Context, value: Any, report: Report) -> None:
    for name, table, _ in context.outcome.shards:
        for column, kind in value.items():
            found = re.sub(r"(item|element): ", "", str(table.schema.field(column).type)).replace(
                " not null", ""
            )
            report.expect(found == kind, f"{name}: {column} is {found}, expected {kind}")


def _sentences(context: Context, value: Any, report: Report) -> None:
    for sentence in [value] if isinstance(value, str) else value:
        invariants.check(context, sentence, report)


_SPECIAL = {
    "if_repaired": _if_repaired,
    "ids": _ids,
    "certified_ids": _some_ids,
    "certified": _some_ids,
    "quarantined": _quarantined_ids,
    "quarantined_lines": _quarantined_lines,
    "lines": _line_numbers,
    "fields": _numbers_named,
    "lengths": _numbers_named,
    "found": _named_everywhere,
    "needed": _named_everywhere,
    "files": _files,
    "read": _files_read,
    "sheet": _sheet,
    "types": _types,
    "invariants": _sentences,
}
