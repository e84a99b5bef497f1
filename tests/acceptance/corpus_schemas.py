"""Schemas for files that nobody wrote a schema for: the columns of the file's own header, all of them optional text.

Such a schema asks one thing: was every row read, and set aside only for what is wrong with the file itself?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.schema.load import LoadedSchema
from pipeline.schema.model import Schema
from pipeline.sources.discover import SUFFIXES, Claim
from pipeline.sources.fault import FileFault
from pipeline.sources.inspect import inspect
from pipeline.sources.sandbox import Limits, run

_PLACE = re.compile(r"(.*) \((\d+)\)")
LIMITS = {"workbook_seconds": 60, "workbook_memory_mb": 2048}
DOCBANK = ("token", "x0", "y0", "x1", "y1", "r", "g", "b", "font", "label")


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
    limits = Limits(LIMITS["workbook_seconds"], LIMITS["workbook_memory_mb"])
    tabs: list[list[str]] = []
    for frame in run("pipeline.sources.workbook.tasks:inspect", request, limits, path.name):
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
        partitions = inspect(claim, loaded.schema, ()).partitions
    except FileFault:
        return ()
    return partitions[0].header if partitions else ()


def _unique(header: Sequence[str]) -> list[str]:
    """Names that stand once in the header: the reader makes ``a, a`` into ``a, a (2)``."""
    places = {i: _PLACE.fullmatch(name) for i, name in enumerate(header, 1)}
    twice = {match[1] for i, match in places.items() if match and int(match[2]) == i and match[1] in header}
    return [
        name
        for i, name in enumerate(header, 1)
        if name not in twice and not (places[i] and places[i][1] in twice)
    ]  # type: ignore[index]


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
