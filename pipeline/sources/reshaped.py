"""Documents that `read: reshape:` makes records of: JSON, JSON Lines, declared lines, XML and HTML.

A document is held whole in memory while it is reshaped (`read: limits: record_mb`). A record's row is its number in the
document, or its line in JSON Lines, where a line must make one record. Only the top-level keys that the schema reads
are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.batch import Batch, Findings
from pipeline.cells.paths import steps
from pipeline.reasons import Reason
from pipeline.sources.encoding import prove, text
from pipeline.sources.fault import FileNote, fault
from pipeline.sources.markup import MarkupError, parse_markup
from pipeline.sources.packing import packed
from pipeline.sources.partition import Inspection, Partition, Reading
from pipeline.sources.reshape import reshaped, strict

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import LineFormat
    from pipeline.sources.discover import Claim

FORMATS = ("json", "jsonl", "lines", "markup")


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """One partition a file. Raises ``FileFault`` for a format without nesting, a document over the limit, or bytes of
    an undeclared encoding."""
    form = "lines" if claim.format in ("csv", "tsv") and schema.read.line_format is not None else claim.format
    if form not in FORMATS:
        raise fault(Reason.FILE_UNREADABLE, claim.source, f"`reshape` on {form}", ", ".join(FORMATS))
    limit = schema.read.limits.record_mb
    if form != "jsonl" and claim.bytes > limit * 2**20:
        raise fault(Reason.FILE_LIMIT, claim.source, f"{-(-claim.bytes // 2**20)} MB", f"{limit} MB")
    encoding = prove(claim.path, claim.source, schema.read.encodings)
    start = encoding.mark if encoding.codec == "utf-8" else 0
    partition = Partition(
        claim.source, claim.schema_index, "reshaped", start=start, encoding=encoding.codec, form=form
    )
    if form != "jsonl" and not _records(partition, claim.path, schema):
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no record", "records to reshape"),))
    return Inspection((partition,))


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of raw JSON values, one a record."""
    keep = frozenset(
        steps(one)[0].key
        for field in fields
        for one in ((field.path,) if isinstance(field.path, str) else field.path)
        if one != "$"
    )

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        if partition.form == "jsonl":
            return packed(_lines(_text(partition, path), partition, schema, keep, dropped))
        records = _records(partition, path, schema)
        return packed(
            _piece(_written(record, keep), row, partition) for row, record in enumerate(records, start=1)
        )

    return Reading(batches)


def _text(partition: Partition, path: Path) -> str:
    return b"".join(text(path, partition)).decode()


def _records(partition: Partition, path: Path, schema: Schema) -> list[Any]:
    """The records of a document. Raises ``FileFault`` where it does not parse."""
    return reshaped(_document(_text(partition, path), partition, schema), schema.read.reshape)


def _document(data: str, partition: Partition, schema: Schema) -> Any:
    match partition.form:
        case "json":
            return _json(data, partition)
        case "lines":
            assert schema.read.line_format is not None  # noqa: S101 - the format says so
            return {"rows": _rows(data, schema.read.line_format)}
        case _:
            try:
                return parse_markup(data)
            except MarkupError as error:
                raise fault(
                    Reason.FILE_UNREADABLE, partition.source, str(error), "well-formed markup"
                ) from None


def _json(data: str, partition: Partition) -> Any:
    try:
        return strict(data)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:
        found = str(error) if isinstance(error, ValueError) else "nested too deeply"
    raise fault(Reason.JSON_ARRAY_INVALID, partition.source, found, "one JSON document")


def _rows(data: str, form: LineFormat) -> list[dict[str, str]]:
    """Lines as objects of text by field; a first line that repeats the names of the fields is no row."""
    split = len(form.fields) - 1 if form.rest else -1
    lines = [line.split(form.separator, split) for line in data.splitlines() if line.strip()]
    if lines and tuple(part.strip() for part in lines[0]) == form.fields:
        del lines[0]
    return [dict(zip(form.fields, line, strict=False)) for line in lines]


def _lines(
    data: str, partition: Partition, schema: Schema, keep: frozenset[str], dropped: Counter[str]
) -> Iterator[tuple[Batch, Findings, int]]:
    """Each line by itself; one that is no JSON goes on as it stands, and the cast finds it."""
    for row, line in enumerate(data.split("\n"), start=1):
        if not line.strip():
            dropped["blank"] += bool(line) or row <= data.count("\n")
            continue
        try:
            records = reshaped(strict(line), schema.read.reshape)
        except (ValueError, RecursionError):
            yield _piece(line.encode(), row, partition)
            continue
        if len(records) == 1:
            yield _piece(_written(records[0], keep), row, partition)
            continue
        batch, findings, size = _piece(line.encode(), row, partition)
        findings.add(
            Reason.LINE_FORMAT, schema.policy(Reason.LINE_FORMAT), "", batch.ids,
            found=f"{len(records)} records", expected="one record a line",
        )  # fmt: skip
        yield batch, findings, size


def _written(record: Any, keep: frozenset[str]) -> bytes:
    """The record as JSON, the keys that are read only."""
    if isinstance(record, dict) and keep:
        record = {key: value for key, value in record.items() if key in keep}
    return json.dumps(record, separators=(",", ":")).encode()


def _piece(raw: bytes, row: int, partition: Partition) -> tuple[Batch, Findings, int]:
    import polars as pl
    import pyarrow as pa

    first, place = np.zeros(1, np.int64), np.array([row], np.int64)
    batch = Batch(partition.source, None, first, place, pl.DataFrame(), raw=pa.array([raw], pa.binary()))
    return batch, Findings(), len(raw)
