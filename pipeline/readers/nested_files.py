"""Documents that `read: reshape:` makes records of: JSON, JSON Lines, declared lines, XML and HTML.

The whole document is in memory while it is reshaped (`read: limits: record_mb`). The row of a record is its number in
the document; in JSON Lines it is its line, and a line must make one record. Records keep only the top-level keys that
the schema reads.

The markup parser reads no DTD and expands only the character entities of HTML, so that a document cannot grow while it
is parsed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings
from pipeline.findings import FileNote, file_fault
from pipeline.readers.blocks import repack
from pipeline.readers.encoding import partition_text, prove_encoding
from pipeline.readers.formats import Inspection, Partition, Reading
from pipeline.readers.nested import reshape, strict_json
from pipeline.reasons import Reason
from pipeline.values.paths import parse_path

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import LineFormat


# XML and HTML as nested JSON-like objects, for hOCR and ALTO; tags and attributes in lower case

VOID_ELEMENTS = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
"""HTML elements without an end tag."""
MOST_DEPTH = 100
MOST_INLINE_ELEMENTS = 8
"""An element with at most so many elements below it also carries their text."""

Node = dict[str, Any]


class MarkupError(ValueError):
    """Markup that is cut off, unbalanced or nested too deeply."""


def parse_markup(markup: str) -> Node:
    """The root: ``{"tag", "text", "children", attribute: value …}``; attributes named ``tag``, ``text`` or
    ``children`` get an underscore. Raises MarkupError."""
    parser = _MarkupParser()
    parser.feed(markup)
    if "<" in parser.rawdata:  # text that is not parsed yet
        raise MarkupError("the document ends within a tag")
    parser.close()
    if len(parser.open) > 1:
        raise MarkupError(f"the document ends within <{parser.open[-1]['tag'][:40]}>")
    return parser.root


class _MarkupParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root: Node = {"tag": "", "text": "", "children": []}
        self.open: list[Node] = [self.root]
        self._counts_below: list[int] = [0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len(self.open) > MOST_DEPTH:
            raise MarkupError(f"nested deeper than {MOST_DEPTH}")
        node: Node = {"tag": tag, "text": "", "children": []}
        for name, value in attrs:
            node.setdefault(f"{name}_" if name in ("tag", "text", "children") else name, value or "")
        self.open[-1]["children"].append(node)
        self.open.append(node)
        self._counts_below.append(0)
        if tag in VOID_ELEMENTS:
            self._close_element()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID_ELEMENTS:
            self._close_element()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID_ELEMENTS:
            return
        if self.open[-1]["tag"] != tag:
            raise MarkupError(f"</{tag[:40]}> where <{self.open[-1]['tag'][:40]}> is open")
        self._close_element()

    def handle_data(self, data: str) -> None:
        self.open[-1]["text"] += data

    def _close_element(self) -> None:
        node, below = self.open.pop(), self._counts_below.pop()
        self._counts_below[-1] += below + 1
        if below <= MOST_INLINE_ELEMENTS:
            self.open[-1]["text"] += node["text"]


# The reader

FORMATS = ("json", "jsonl", "lines", "markup")


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """One partition a file.

    Raises ``FileFault`` for a format without nesting, a document over the limit or one that does not parse, and an
    unproven encoding.
    """
    form = "lines" if claim.format in ("csv", "tsv") and schema.read.line_format is not None else claim.format
    if form not in FORMATS:
        raise file_fault(Reason.FILE_UNREADABLE, claim.source, f"`reshape` on {form}", ", ".join(FORMATS))
    limit = schema.read.limits.record_mb
    if form != "jsonl" and claim.bytes > limit * 2**20:
        raise file_fault(Reason.FILE_LIMIT, claim.source, f"{-(-claim.bytes // 2**20)} MB", f"{limit} MB")
    encoding = prove_encoding(claim.path, claim.source, schema.read.encodings)
    start = encoding.bom_bytes if encoding.codec == "utf-8" else 0
    partition = Partition(
        claim.source, claim.schema_index, "reshaped", start=start, encoding=encoding.codec, form=form
    )
    if form != "jsonl" and not _reshaped_records(partition, claim.path, schema):
        return Inspection((), (FileNote(Reason.FILE_EMPTY, claim.source, "no record", "records to reshape"),))
    return Inspection((partition,))


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Batches of raw JSON values, one a record."""
    keep = frozenset(
        parse_path(one)[0].key
        for field in fields
        for one in ((field.path,) if isinstance(field.path, str) else field.path)
        if one != "$"
    )

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        if partition.form == "jsonl":
            return repack(_line_batches(_read_document(partition, path), partition, schema, keep, dropped))
        records = _reshaped_records(partition, path, schema)
        return repack(
            _batch_of_record(_encode_record(record, keep), row, partition)
            for row, record in enumerate(records, start=1)
        )

    return Reading(batches)


def _read_document(partition: Partition, path: Path) -> str:
    return b"".join(partition_text(path, partition)).decode()


def _reshaped_records(partition: Partition, path: Path, schema: Schema) -> list[Any]:
    """The records of a document. Raises ``FileFault`` if it does not parse."""
    return reshape(_parse_document(_read_document(partition, path), partition, schema), schema.read.reshape)


def _parse_document(data: str, partition: Partition, schema: Schema) -> Any:
    match partition.form:
        case "json":
            return _parse_json(data, partition)
        case "lines":
            assert schema.read.line_format is not None  # noqa: S101 - the format says so
            return {"rows": _parse_lines(data, schema.read.line_format)}
        case _:
            try:
                return parse_markup(data)
            except MarkupError as error:
                raise file_fault(
                    Reason.FILE_UNREADABLE, partition.source, str(error), "well-formed markup"
                ) from None


def _parse_json(data: str, partition: Partition) -> Any:
    try:
        return strict_json(data)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:
        found = str(error) if isinstance(error, ValueError) else "nested too deeply"
    raise file_fault(Reason.JSON_ARRAY_INVALID, partition.source, found, "one JSON document")


def _parse_lines(data: str, form: LineFormat) -> list[dict[str, str]]:
    """Lines as objects of text by field; a first line that repeats the field names is a header."""
    split = len(form.fields) - 1 if form.rest else -1
    lines = [line.split(form.separator, split) for line in data.splitlines() if line.strip()]
    if lines and tuple(part.strip() for part in lines[0]) == form.fields:
        del lines[0]
    return [dict(zip(form.fields, line, strict=False)) for line in lines]


def _line_batches(
    data: str, partition: Partition, schema: Schema, keep: frozenset[str], dropped: Counter[str]
) -> Iterator[tuple[Batch, Findings, int]]:
    """One batch a line. A line that is not JSON passes through unchanged: the cast stage reports it."""
    for row, line in enumerate(data.split("\n"), start=1):
        if not line.strip():
            dropped["blank"] += bool(line) or row <= data.count("\n")
            continue
        try:
            records = reshape(strict_json(line), schema.read.reshape)
        except (ValueError, RecursionError):
            yield _batch_of_record(line.encode(), row, partition)
            continue
        if len(records) == 1:
            yield _batch_of_record(_encode_record(records[0], keep), row, partition)
            continue
        batch, findings, size = _batch_of_record(line.encode(), row, partition)
        findings.add(
            Reason.LINE_FORMAT,
            schema.policy(Reason.LINE_FORMAT),
            "",
            batch.ids,
            found=f"{len(records)} records",
            expected="one record a line",
        )
        yield batch, findings, size


def _encode_record(record: Any, keep: frozenset[str]) -> bytes:
    """The record as JSON, with only the keys in ``keep``."""
    if isinstance(record, dict) and keep:
        record = {key: value for key, value in record.items() if key in keep}
    return json.dumps(record, separators=(",", ":")).encode()


def _batch_of_record(raw: bytes, row: int, partition: Partition) -> tuple[Batch, Findings, int]:
    first, place = np.zeros(1, np.int64), np.array([row], np.int64)
    batch = Batch(partition.source, None, first, place, pl.DataFrame(), raw=pa.array([raw], pa.binary()))
    return batch, Findings(), len(raw)
