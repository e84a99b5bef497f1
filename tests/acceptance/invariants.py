"""Invariants: sentences a program can check. What is not understood is printed as unchecked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.acceptance import readback
from tests.acceptance.case import Report
from tests.acceptance.execute import lay_out, run
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Outcome, Record

Check = Callable[[Context, "re.Match[str]", Report], None]
_CHECKS: list[tuple[re.Pattern[str], Check]] = []


def _sentence(pattern: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        _CHECKS.append((re.compile(pattern, re.IGNORECASE), check))
        return check

    return register


def check(context: Context, sentence: str, report: Report) -> None:
    """Check all that a sentence says."""
    found = [(match, function) for pattern, function in _CHECKS if (match := pattern.search(sentence))]
    if not found:
        report.unchecked.append(f"invariant: {sentence}")
    for match, function in found:
        function(context, match, report)


def _samples(context: Context) -> list[tuple[Record, dict[str, Any]]]:
    return [(record, sample) for record in context.outcome.certified for sample in record.samples]


@_sentence(r"identical Arrow schema|same Arrow schema|one schema in all shards")
def _one_schema(context: Context, _: re.Match[str], report: Report) -> None:
    schemas = {str(table.schema) for _, table, _ in context.outcome.shards}
    report.expect(len(schemas) == 1, f"{len(schemas)} Arrow schemas")
    if rows := context.case.assumed.get("shard_rows"):
        wanted = -(-len(context.outcome.samples) // rows)
        report.expect(
            len(context.outcome.shards) == wanted, f"{len(context.outcome.shards)} shards, not {wanted}"
        )


@_sentence(r"shards?\b.*(?:<=|at most|below|under|no larger|bounded|shard_bytes)")
def _shard_bytes(context: Context, _: re.Match[str], report: Report) -> None:
    limit = context.case.assumed.get("shard_bytes")
    if limit is None:
        return
    for name, table, size in context.outcome.shards:
        if table.num_rows > 1:
            report.expect(
                size <= limit, f"{name}: {size} bytes in {table.num_rows} rows, the limit is {limit}"
            )


@_sentence(r"certified \+ quarantined\s*==?\s*(\d+)")
def _sum(context: Context, match: re.Match[str], report: Report) -> None:
    total = len(context.outcome.certified) + len(context.outcome.quarantined)
    report.expect(total == int(match.group(1)), f"certified + quarantined is {total}")


@_sentence(r"raw (?:text|form|bytes)?.*(?:recoverable|kept)")
def _recoverable(context: Context, _: re.Match[str], report: Report) -> None:
    for record in context.outcome.quarantined:
        row = record.refusal or {}
        path = context.case.folder / record.place[0]
        line = path.read_bytes().split(b"\n")[record.place[2] - 1].rstrip(b"\r") if path.is_file() else b""
        kept = row["raw"]
        if path.suffix == ".jsonl" and kept is not None:
            report.expect(kept.rstrip(b"\r\n") == line, f"row {record.place[2]}: raw bytes are not the line")
        report.expect(bool(kept or row["cells"]), f"row {record.place[2]}: neither raw nor cells kept")


@_sentence(r"len\(input_ids\).*?(?:<=\s*(\d+))?$")
def _lengths(context: Context, match: re.Match[str], report: Report) -> None:
    limit = int(match.group(1) or context.value.get("max_len") or 10**9)
    for record, sample in _samples(context):
        columns = (sample.get(c) for c in ("input_ids", "attention_mask", "bbox", "labels"))
        lengths = [len(column) for column in columns if isinstance(column, list)]
        report.expect(
            len(set(lengths)) == 1 and lengths[0] <= limit, f"row {record.place[2]}: lengths {lengths}"
        )


@_sentence(r"kept words|windows of|prefix or windows")
def _in_order(context: Context, _: re.Match[str], report: Report) -> None:
    """Each window is a run of words, the first starts at the first word, and no gap lies between two."""
    for record in context.outcome.certified:
        reached = -1
        for sample in sorted(record.samples, key=lambda s: s["window"]):
            seen = [w for w in sample["word_ids"] if w >= 0]
            runs = sorted(set(seen))
            report.expect(seen == sorted(seen), "words out of order in a window")
            report.expect(runs[0] <= reached + 1, f"words {reached + 1} to {runs[0] - 1} are in no window")
            reached = max(reached, runs[-1])


@_sentence(r"lost words|dropped words|cut words|words.*counted")
def _counted(context: Context, _: re.Match[str], report: Report) -> None:
    for record in context.outcome.certified:
        held = {w for sample in record.samples for w in sample["word_ids"] if w >= 0}
        lost = max(held) + 1 - len(held)
        noted = any("sequence_too_long" in sample["notes"] for sample in record.samples)
        report.expect(lost == 0 or noted, f"row {record.place[2]}: {lost} words lost without a note")
        report.expect(noted or len(record.samples) == 1, f"row {record.place[2]}: windows without a note")


@_sentence(r"count\((bos|eos|eot|pad)(?:_id)?\)\s*==?\s*(\d+)")
def _token_count(context: Context, match: re.Match[str], report: Report) -> None:
    token = _token(context, match.group(1))
    for record, sample in _samples(context):
        count = sample["input_ids"].count(token)
        report.expect(
            count == int(match.group(2)), f"row {record.place[2]}: {count} × {match.group(1)} ({token})"
        )


@_sentence(r"ids\(([\w.#-]+)\)\s*==?\s*ids\(([\w.#-]+)\)")
def _equal_ids(context: Context, match: re.Match[str], report: Report) -> None:
    one, other = (context.find(name) for name in match.groups())
    if one is not None and not one.certified and "quarantined" in match.string:
        return
    if one is None or other is None or not one.certified or not other.certified:
        report.fail(f"{match.group(0)}: not both certified")
        return
    same = one.samples[0]["input_ids"] == other.samples[0]["input_ids"]
    report.expect(same, f"{match.group(0)} does not hold")


@_sentence(r"(?:equal|same|identical).*(?:two runs|runs|workers|order|listing)|(\d+) and (\d+) workers")
def _again(context: Context, match: re.Match[str], report: Report) -> None:
    """Run again: elsewhere, files copied the other way round, with other numbers of workers."""
    counts = [int(n) for n in re.findall(r"\d+(?= (?:and|workers))", match.string)] or [1]
    for number in counts:
        place = context.outcome.clean.parent / f"again-{number}-{len(match.string)}"
        raw = lay_out(context.case, place, backwards=True)
        schema = context.outcome.clean.parent / "case.yaml"
        run(raw, place / "clean", schema, workers=number)
        again = Outcome.read(place / "clean")
        report.expect(
            bool(again.root) and again.root == context.outcome.root,
            f"another root with {number} worker(s) in another order",
        )


@_sentence(r"labels?\[0\]|position 0")
def _first_position(context: Context, _: re.Match[str], report: Report) -> None:
    for record, sample in _samples(context):
        learned = any(label != readback.IGNORE for label in sample["labels"][1:])
        report.expect(learned, f"row {record.place[2]}: nothing to learn after position 0")


@_sentence(
    r"(?:eot|eos|end.of.turn).*(?:supervis|label|train|mask|learn)|(?:supervis|train|learn).*(?:eot|eos|end)"
)
def _end_trained(context: Context, _: re.Match[str], report: Report) -> None:
    token = _token(context, "eot")
    for record, sample in _samples(context):
        ends = [la for i, la in zip(sample["input_ids"], sample["labels"], strict=True) if i == token]
        report.expect(
            (ends or [0])[-1] != readback.IGNORE, f"row {record.place[2]}: last end of turn is not trained"
        )


@_sentence(r"(?:at least one|some|any) (?:label|supervised|token)|no row .*-100|not all .*-100")
def _something_learned(context: Context, _: re.Match[str], report: Report) -> None:
    for record, sample in _samples(context):
        learned = any(label != readback.IGNORE for label in sample["labels"][1:])
        report.expect(learned, f"row {record.place[2]}: nothing to learn")


@_sentence(r"(?:all |every )?(?:box|coordinate)s?.*0\s*(?:\.\.|-|–|<=)|x0\s*<=\s*x1|0\s*<=")
def _boxes_in_range(context: Context, _: re.Match[str], report: Report) -> None:
    for record, sample in _samples(context):
        for x0, y0, x1, y1 in sample.get("bbox", ()):
            fine = 0 <= x0 <= x1 <= 1000 and 0 <= y0 <= y1 <= 1000
            report.expect(fine, f"row {record.place[2]}: box {[x0, y0, x1, y1]}")


@_sentence(r"(?:every|all|each|no) (?:token )?ids?\b.*(?:embedding|vocab|< ?\d)|ids? (?:<|below)")
def _ids_in_range(context: Context, match: re.Match[str], report: Report) -> None:
    given = re.search(r"<\s*(\d+)", match.string)
    rows = int(given.group(1)) if given else context.case.assumed.get("embedding_rows")
    limit = rows or (context.reader.size if context.reader else 0)
    for record, sample in _samples(context):
        fine = all(0 <= token < limit for token in sample.get("input_ids", ()))
        report.expect(fine, f"row {record.place[2]}: an id outside 0 to {limit - 1}")


@_sentence(r"overlap.*-100|-100.*overlap|trained (?:only )?once")
def _overlap_ignored(context: Context, _: re.Match[str], report: Report) -> None:
    """Over all windows, no word has its label twice."""
    for record in context.outcome.certified:
        learned = [
            word
            for sample in record.samples
            for word, label in zip(sample["word_ids"], sample["labels"], strict=True)
            if word >= 0 and label != readback.IGNORE
        ]
        report.expect(len(learned) == len(set(learned)), f"row {record.place[2]}: a word is trained twice")


@_sentence(r"(?:sum|total|all)\b.*rows.*(?:shards|==?\s*\d+)|no row (?:is )?(?:lost|missing|twice)")
def _no_row_lost(context: Context, match: re.Match[str], report: Report) -> None:
    rows = sum(table.num_rows for _, table, _ in context.outcome.shards)
    given = re.search(r"==?\s*(\d+)", match.string)
    wanted = int(given.group(1)) if given else len(context.outcome.samples)
    report.expect(rows == wanted, f"{rows} rows in the shards, expected {wanted}")


@_sentence(r"(?:no|without)\b.*(?:temp|partial|staging|half)")
def _nothing_left_over(context: Context, _: re.Match[str], report: Report) -> None:
    left = [p.name for p in context.outcome.clean.rglob("*") if p.suffix == ".tmp" or p.name == ".staging"]
    report.expect(not left, f"left over: {left}")


def _token(context: Context, role: str) -> int | None:
    """Id of a token as the case or the tokenizer says."""
    if (given := context.case.assumed.get(f"{role}_id")) is not None:
        return int(given)
    if context.reader is None:
        return None
    return context.reader.id_of("eos" if role == "eot" else role)
