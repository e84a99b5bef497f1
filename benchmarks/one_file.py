"""One file through the pipeline, from its bytes to its shards, and what became of its records.

Nobody wrote a schema for these files: the schema has the columns of the file's own header, all of them optional text.
It asks one thing: was every row read, and set aside only for what is wrong with the file itself?
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.certificate.receipt import Receipt
from pipeline.errors import InputError
from pipeline.findings import FileFault
from pipeline.plan import inspect_file, make_plan
from pipeline.readers import sandbox_parent
from pipeline.readers.discover import SUFFIXES, Claim
from pipeline.schema.load import LoadedSchema
from pipeline.schema.model import Schema
from pipeline.shards.files import data_folder, quarantine_folder
from pipeline.worker import Task, process_partition

_PLACE = re.compile(r"(.*) \((\d+)\)")
LIMITS = {"workbook_seconds": 60, "workbook_memory_mb": 2048}
DOCBANK = ("token", "x0", "y0", "x1", "y1", "r", "g", "b", "font", "label")


@dataclass
class Result:
    """What became of one file.

    Attributes:
        path: relative to the folder that was read.
        read: records read, blank rows among them.
        certified, quarantined: counted in the shards, not taken from the accounts.
        reasons: quarantine findings by slug; a record has one or more.
        errors: cells by the error they show.
        faults, notes: slugs of what is wrong with the file as a whole, and of what is said of it.
        rows: all records as cells by header, certified ones first.
        problems: what must not be; empty where all is well.
    """

    path: str
    read: int = 0
    certified: int = 0
    quarantined: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    peak_mb: int = 0
    problems: list[str] = field(default_factory=list)


def read_file(path: Path, name: str) -> Result:
    """Read a file as it would be read in a raw folder of its own."""
    result = Result(name)
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            raw = Path(folder) / "raw"
            raw.mkdir()
            shutil.copyfile(path, raw / path.name)
            for label, loaded in schemas(path):
                _read_once(raw, Path(folder) / "staging", loaded, result, label)
    except FileFault as fault:
        result.faults.append(fault.note.reason.slug)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        result.problems.append(f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}")
    sandbox_parent.release()
    result.seconds = time.monotonic() - started
    usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result.peak_mb = max(usage) // 1024
    return result


def _read_once(raw: Path, staging: Path, loaded: Any, result: Result, label: str) -> None:
    shutil.rmtree(staging, ignore_errors=True)
    try:
        plan = make_plan(raw, [loaded])
    except InputError as error:
        result.faults.append(type(error).__name__)
        return
    result.faults += [note.reason.slug for note in plan.faults]
    result.notes += [note.reason.slug for note in plan.notes]
    for one in plan.inputs:
        for partition in one.partitions:
            task = Task(
                partition,
                loaded.schema.model_dump_json(),
                str(loaded.path),
                str(raw),
                str(staging),
                one.memo,
                one.sha256,
                one.stamp,
                fsync=False,
            )
            made = process_partition(task)
            if isinstance(made, Receipt):
                _count(made, staging, loaded.schema, result, f"{label}#{partition.order}")
            else:
                result.faults.append(made.reason.slug)


def _count(receipt: Receipt, staging: Path, schema: Any, result: Result, where: str) -> None:
    """Count the shards on the disk and compare with the accounts; the shards are then removed."""
    certified = _tables(staging / data_folder("corpus"))
    quarantined = _tables(staging / quarantine_folder("corpus"))
    kept, aside = sum(t.num_rows for t in certified), sum(t.num_rows for t in quarantined)
    blank = sum(receipt.dropped.values())
    if (kept, aside) != (receipt.certified, receipt.quarantined) or receipt.rows_read != kept + aside + blank:
        result.problems.append(f"{where}: {receipt.rows_read} read, {kept} + {aside} + {blank} kept")
    places = Counter(row for table in (*certified, *quarantined) for row in table["row"].to_pylist())
    if places and max(places.values()) > 1:
        result.problems.append(f"{where}: a row stands twice")
    result.read += receipt.rows_read
    result.certified += kept
    result.quarantined += aside
    result.dropped += Counter(receipt.dropped)
    headers = {name: column.column for name, column in schema.columns.items()}
    for table in certified:
        result.rows += [
            {str(headers[k]): v for k, v in row.items() if k in headers}
            for row in table.select([c for c in table.column_names if c in headers]).to_pylist()
        ]
    for table in quarantined:
        result.rows += [json.loads(cells) for cells in table["cells"].to_pylist() if cells]
        for reasons in table["reasons"].to_pylist():
            result.reasons.update({one["reason"] for one in reasons})
            result.errors.update(one["found"] for one in reasons if one["reason"] == "cell_error")


def _tables(folder: Path) -> list[pa.Table]:
    tables = []
    for path in sorted(folder.glob("*.arrow")):
        with pa.ipc.open_stream(path) as reader:
            tables.append(reader.read_all())
        path.unlink()
    return tables


def schemas(path: Path) -> Iterator[tuple[str, LoadedSchema]]:
    """One schema for a file, or one for each sheet of a workbook, with what it reads ("" for the whole file)."""
    kind = SUFFIXES.get(path.suffix.lower(), "")
    if kind == "excel":
        yield from _sheets(path)
    elif path.suffix == ".txt" and path.parent.name == "docbank":
        lines = {"separator": "\t", "fields": DOCBANK}
        yield "", _schema(path, DOCBANK, line_format=lines, format="lines")
    elif path.suffix == ".txt":
        yield "", _schema(path, (), format="jsonl")
    elif kind in ("csv", "tsv"):
        yield "", _schema(path, _delimited(path, kind))
    else:
        yield "", _schema(path, ())


def _sheets(path: Path) -> Iterator[tuple[str, LoadedSchema]]:
    request = {"path": str(path), "sheets": "visible", "cells": 10**8, "head": 0}
    limits = sandbox_parent.Limits(LIMITS["workbook_seconds"], LIMITS["workbook_memory_mb"])
    tabs: list[list[str]] = []
    for frame in sandbox_parent.run_task("pipeline.readers.xlsx.tasks:inspect", request, limits, path.name):
        if isinstance(frame, dict) and "sheets" in frame:
            tabs = frame["sheets"]
    for index, (name, _, kind) in enumerate(tabs):
        if kind == "worksheet":
            yield name, _of_sheet(path, index)


def _of_sheet(path: Path, index: int) -> LoadedSchema:
    """By the first row as header; where that has a name twice, by numbers, so that no column is left out."""
    schema = _schema(path, (), sheets=(index,))
    header = _header(path, "excel", schema)
    if _unique(header) == list(header):
        return _schema(path, header, sheets=(index,))
    numbers = [str(i + 1) for i in range(max(len(header), 50))]
    return _schema(path, numbers, sheets=(index,), header="none")


def _delimited(path: Path, kind: str) -> list[str]:
    return _unique(_header(path, kind, _schema(path, ())))


def _header(path: Path, kind: str, loaded: LoadedSchema) -> tuple[str, ...]:
    claim = Claim(0, path.name, path, kind, path.stat().st_size)
    try:
        partitions = inspect_file(claim, loaded.schema, ()).partitions
    except FileFault:
        return ()
    return partitions[0].header if partitions else ()


def _unique(header: Sequence[str]) -> list[str]:
    """Names that stand once in the header: the reader makes ``a, a`` into ``a, a (2)``."""
    twice: set[str] = set()
    renamed: set[str] = set()
    for place, name in enumerate(header, 1):
        match = _PLACE.fullmatch(name)
        if match and int(match[2]) == place and match[1] in header:
            twice.add(match[1])
            renamed.add(name)
    return [name for name in header if name not in twice | renamed]


def _schema(path: Path, names: Sequence[str], **read: Any) -> LoadedSchema:
    columns = {
        f"c{i}": {"column": name, "required": False, "blank": "allow"}
        for i, name in enumerate(names or ("no such column",))
        if not name.startswith("$")
    }
    return LoadedSchema(
        Schema.model_validate(
            {
                "version": 1,
                "name": "corpus",
                "kind": "table",
                "files": ("*",),
                "read": {"limits": LIMITS, **read},
                "columns": columns,
                "table": {"text": None},
            }
        ),
        path.parent / "corpus.yaml",
    )
