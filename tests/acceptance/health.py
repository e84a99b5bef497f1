"""What every certified sample must be, whatever the case: judged anew, from the shards alone."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tests.acceptance import readback
from tests.acceptance.case import Report
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Record, Row
from tests.acceptance.peek import decode

LIMITS = {"layoutlmv3": 512, "lilt": 512, "layoutlm": 512, "layoutlmv2": 512, "layoutxlm": 512, "bros": 512}


def check(context: Context, report: Report) -> None:
    """All checks; each mistake is one line."""
    totals = context.outcome.predicate.get("totals", {})
    if totals:
        parts = totals["certified"] + totals["quarantined"] + sum(dict(totals["dropped"]).values())
        report.expect(totals["rows_read"] == parts, f"{totals['rows_read']} read, {parts} accounted for")
        report.expect(totals["certified"] == len(context.outcome.certified), "certified records miscounted")
        report.expect(
            totals["quarantined"] == len(context.outcome.quarantine), "quarantined records miscounted"
        )
    _places(context, report)
    schemas = {table.schema for _, table, _ in context.outcome.shards}
    report.expect(len(schemas) <= 1, "shards of different Arrow schemas")
    report.expect(
        not any(pa.types.is_null(f.type) for schema in schemas for f in schema), "a column of Arrow type null"
    )
    for record in context.outcome.certified:
        for sample in record.samples:
            mistakes = list(_sample(context, sample))
            for mistake in mistakes[:3]:
                report.fail(f"row {record.place[2]}: {mistake}")
        if context.schema["kind"] == "layout":
            _page(context, record, report)


def _places(context: Context, report: Report) -> None:
    """No record twice, and of JSON Lines each at the line where its id stands."""
    places = [record.place for record in context.outcome.records]
    report.expect(len(set(places)) == len(places), "a record in two places")
    lines: dict[str, list[str]] = {}
    for name, record in context.ids:
        source, _, row = record.place
        path = context.case.folder / source
        if not source.endswith(".jsonl") or name is None or not path.is_file():
            continue
        content = lines.setdefault(source, decode(path.read_bytes()).split("\n"))
        line = content[row - 1].lower() if row <= len(content) else ""
        spelled = (name.lower(), json.dumps(name)[1:-1].lower())  # as text, or in escapes
        report.expect(any(one in line for one in spelled), f"{name} is not at line {row} of {source}")


def _sample(context: Context, sample: Row) -> Any:
    """Mistakes of one sample, in words."""
    if "input_ids" not in sample:
        return
    ids, mask = sample["input_ids"], sample["attention_mask"]
    limit = (context.schema.get("model") or {}).get("embedding_rows") or (
        context.reader and context.reader.size
    )
    if limit and not all(0 <= token < limit for token in ids):
        yield f"an id outside 0 to {limit - 1}"
    if len(mask) != len(ids) or not any(mask) or not all(bit in (0, 1) for bit in mask):
        yield "attention mask does not fit"
    longest = _longest(context)
    if longest and len(ids) > longest:
        yield f"{len(ids)} tokens, the limit is {longest}"
    labels = sample.get("labels")
    if isinstance(labels, list):
        yield from _labels(context, ids, labels)
    if "bbox" in sample:
        yield from _boxes(context, sample)
    if context.schema["kind"] == "chat" and context.reader is not None:
        yield from _chat(context, sample)


def _longest(context: Context) -> int | None:
    kind = context.schema["kind"]
    if kind == "layout":
        limit = LIMITS[context.schema["model"]["family"]]
        window = context.schema["layout"].get("window", {}).get("max_tokens", 512)
        return min(limit, window)
    found: int | None = (context.schema.get(kind) or {}).get("max_tokens")
    return found


def _labels(context: Context, ids: list[int], labels: list[int]) -> Any:
    if len(labels) != len(ids):
        yield f"{len(labels)} labels for {len(ids)} tokens"
    kind = context.schema["kind"]
    if kind == "layout":
        names = context.label_names
        if not all(label == readback.IGNORE or 0 <= label < len(names) for label in labels):
            yield "a label outside the list"
        if all(label == readback.IGNORE for label in labels):
            yield "every label is -100"
        return
    if all(label == readback.IGNORE for label in labels[1:]):
        yield "nothing is supervised after the shift"
    if kind == "chat" and any(la not in (readback.IGNORE, i) for la, i in zip(labels, ids, strict=False)):
        yield "a label that is not its token"


def _boxes(context: Context, sample: Row) -> Any:
    top = 1 if context.schema["model"]["family"] == "bros" else 1000
    for box in sample["bbox"]:
        x0, y0, x1, y1 = box
        if not (0 <= x0 <= x1 <= top and 0 <= y0 <= y1 <= top):
            yield f"box {box}"
            break
    if len(sample["bbox"]) != len(sample["input_ids"]) or len(sample["word_ids"]) != len(sample["input_ids"]):
        yield "boxes or word ids do not fit the tokens"


def _page(context: Context, record: Record, report: Report) -> None:
    """All tokens of a word have one box, in every window."""
    for sample in record.samples:
        found: dict[int, Any] = {}
        for word, box in zip(sample["word_ids"], sample["bbox"], strict=False):
            if word >= 0 and found.setdefault(word, box) != box:
                report.fail(f"row {record.place[2]}: tokens of word {word} have different boxes")
                return


def _chat(context: Context, sample: Row) -> Any:
    """One start token, control tokens only where the frame has them, and exactly the answers trained."""
    reader, ids = context.reader, sample["input_ids"]
    assert reader is not None
    bos = context.case.assumed.get("bos_id", reader.id_of("bos"))
    if bos is not None and bos in reader.controls and ids.count(bos) > 1:
        yield f"{ids.count(bos)} start tokens"
    turns = reader.turns(ids)
    if turns is None:
        return
    answers = [content for role, content in turns if role == "assistant"]
    trained = [reader.text(run) for run in readback.supervised(sample)]
    whole = context.schema["chat"].get("too_long", "quarantine") != "truncate_answer"
    if len(trained) != len(answers) and whole:
        yield f"{len(trained)} trained spans for {len(answers)} answers"
    for answer, text in zip(answers, trained, strict=False):
        # A token may take the line break before an answer together with the answer's own.
        if not text.startswith(answer) and not text.lstrip().startswith(answer.lstrip()):
            yield "a trained span is not its answer"
        elif whole and text == answer:
            yield "the end of turn is not trained"
