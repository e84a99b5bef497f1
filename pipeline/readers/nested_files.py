"""Documents that `read: reshape:` makes records of: JSON, JSON Lines, declared lines, XML and HTML.

The parser expands no entity but HTML's own single characters and reads no DTD, so that a document cannot grow while
it is read.

A document is held whole in memory while it is reshaped (`read: limits: record_mb`). A record's row is its number in the
document, or its line in JSON Lines, where a line must make one record. Only the top-level keys that the schema reads
are kept.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.batch import Batch, Findings
from pipeline.findings import FileNote, file_fault
from pipeline.readers.blocks import repack
from pipeline.readers.encoding import prove, text
from pipeline.readers.formats import Inspection, Partition, Reading
from pipeline.readers.nested import reshape, strict_json
from pipeline.reasons import Reason
from pipeline.values.paths import parse_path

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.readers.discover import Claim
    from pipeline.schema.model import Schema
    from pipeline.schema.reading import LineFormat


# XML and HTML as nested JSON-like objects, for hOCR and ALTO. Tags and attributes in lower case.


VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
"""HTML elements that need no end tag."""
DEPTH = 100
SMALL = 8
"""Elements with at most so many below them carry the text of all of these, too."""

Node = dict[str, Any]


class MarkupError(ValueError):
    """Markup that is cut off, unbalanced or nested too deeply."""


def parse_markup(text: str) -> Node:
    """The root: ``{"tag", "text", "children", attribute: value …}``; attributes named ``tag``, ``text`` or
    ``children`` get an underscore. Raises MarkupError."""
    parser = _Parser()
    parser.feed(text)
    if "<" in parser.rawdata:  # what was not parsed yet
        raise MarkupError("the document ends within a tag")
    parser.close()
    if len(parser.open) > 1:
        raise MarkupError(f"the document ends within <{parser.open[-1]['tag'][:40]}>")
    return parser.root


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root: Node = {"tag": "", "text": "", "children": []}
        self.open: list[Node] = [self.root]
        self._below: list[int] = [0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len(self.open) > DEPTH:
            raise MarkupError(f"nested deeper than {DEPTH}")
        node: Node = {"tag": tag, "text": "", "children": []}
        for name, value in attrs:
            node.setdefault(f"{name}_" if name in ("tag", "text", "children") else name, value or "")
        self.open[-1]["children"].append(node)
        self.open.append(node)
        self._below.append(0)
        if tag in VOID:
            self._end()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._end()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if self.open[-1]["tag"] != tag:
            raise MarkupError(f"</{tag[:40]}> where <{self.open[-1]['tag'][:40]}> is open")
        self._end()

    def handle_data(self, data: str) -> None:
        self.open[-1]["text"] += data

    def _end(self) -> None:
        node, below = self.open.pop(), self._below.pop()
        self._below[-1] += below + 1
        if below <= SMALL:
            self.open[-1]["text"] += node["text"]


# Documents that `read: reshape:` makes records of: JSON, JSON Lines, declared lines, XML and HTML.


FORMATS = ("json", "jsonl", "lines", "markup")


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """One partition a file. Raises ``FileFault`` for a format without nesting, a document over the limit, or bytes of
    an undeclared encoding."""
    form = "lines" if claim.format in ("csv", "tsv") and schema.read.line_format is not None else claim.format
    if form not in FORMATS:
        raise file_fault(Reason.FILE_UNREADABLE, claim.source, f"`reshape` on {form}", ", ".join(FORMATS))
    limit = schema.read.limits.record_mb
    if form != "jsonl" and claim.bytes > limit * 2**20:
        raise file_fault(Reason.FILE_LIMIT, claim.source, f"{-(-claim.bytes // 2**20)} MB", f"{limit} MB")
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
        parse_path(one)[0].key
        for field in fields
        for one in ((field.path,) if isinstance(field.path, str) else field.path)
        if one != "$"
    )

    def batches(dropped: Counter[str]) -> Iterator[tuple[Batch, Findings]]:
        if partition.form == "jsonl":
            return repack(_lines(_text(partition, path), partition, schema, keep, dropped))
        records = _records(partition, path, schema)
        return repack(
            _piece(_written(record, keep), row, partition) for row, record in enumerate(records, start=1)
        )

    return Reading(batches)


def _text(partition: Partition, path: Path) -> str:
    return b"".join(text(path, partition)).decode()


def _records(partition: Partition, path: Path, schema: Schema) -> list[Any]:
    """The records of a document. Raises ``FileFault`` where it does not parse."""
    return reshape(_document(_text(partition, path), partition, schema), schema.read.reshape)


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
                raise file_fault(
                    Reason.FILE_UNREADABLE, partition.source, str(error), "well-formed markup"
                ) from None


def _json(data: str, partition: Partition) -> Any:
    try:
        return strict_json(data)
    except json.JSONDecodeError as error:
        found = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:
        found = str(error) if isinstance(error, ValueError) else "nested too deeply"
    raise file_fault(Reason.JSON_ARRAY_INVALID, partition.source, found, "one JSON document")


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
            records = reshape(strict_json(line), schema.read.reshape)
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
