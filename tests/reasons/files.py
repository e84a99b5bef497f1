"""Findings about files: the other files still go through."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.reasons import Reason
from tests.reasons.books import book, cells
from tests.reasons.case import Case, Link, table

MIB = 2**20


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": ["a"]}), sink)
    return sink.getvalue()


def _grow(raw: Path) -> None:
    with (raw / "bad.csv").open("a") as file:
        file.write("more\n")
    (raw / "near.csv").read_bytes()


def _case(reason: Reason, bad: Any, near: Any, suffix: str = "csv", row: int = 2, **more: Any) -> Case:
    """Two files, one of which has the finding."""
    read = more.pop("read", {})
    schema = table(more.pop("columns", None), files=[f"*.{suffix}"], read=read)
    files = {f"bad.{suffix}": bad, f"near.{suffix}": near}
    return Case(reason, schema, files, f"bad.{suffix}", f"near.{suffix}:{row}", **more)


ANY_TABLE = table(files=["*.csv"])
IMAGE = b"\x89PNG\r\n\x1a\n"
TEXT = "text\na\n"

CASES = (
    _case(Reason.FILE_UNREADABLE, _parquet()[:-1], _parquet(), "parquet", 1),
    _case(Reason.FILE_ENCODING, b"text\ncaf\xe9\n", "text\ncafé\n"),
    _case(
        Reason.FILE_LIMIT,
        "text\n" + "a" * (MIB - 4),
        "text\n" + "a" * (MIB - 5),
        read={"limits": {"file_mb": 1}},
    ),
    _case(Reason.FILE_EMPTY, "", TEXT, name="no_byte"),
    _case(Reason.FILE_EMPTY, "text\n", TEXT, name="header_alone"),
    _case(Reason.FILE_EMPTY, book(cells("text")), book(cells("text"), cells("a")), "xlsx", name="sheet"),
    _case(Reason.FILE_EMPTY, "[]", '[{"text": "a"}]', "json", 1, name="list"),
    _case(Reason.FILE_CHANGED, TEXT, TEXT, meddle=_grow),
    Case(
        Reason.FILE_PATH_ESCAPE,
        ANY_TABLE,
        {"../other.csv": TEXT, "out.csv": Link("../other.csv"), "in.csv": Link("a.csv"), "a.csv": TEXT},
        at="out.csv",
        near="in.csv:2",
    ),
    Case(Reason.FILE_UNCLAIMED, ANY_TABLE, {"a.cvs": TEXT, "b.csv": TEXT}, at="a.cvs", near="b.csv:2"),
    Case(Reason.FILE_LITTER, ANY_TABLE, {"~$a.csv": TEXT, "~a.csv": TEXT}, at="~$a.csv", near="~a.csv:2"),
    Case(
        Reason.FILE_IMAGES,
        {**ANY_TABLE, "ignore": ["known/*"]},
        {"scans/1.png": IMAGE, "known/1.png": IMAGE, "a.csv": TEXT},
        at="scans",
        near="a.csv:2",
    ),
    _case(Reason.HEADER_MISSING, "Text\na\n", TEXT),
    _case(Reason.HEADER_DUPLICATE, "text,text\na,b\n", "text,more,more\na,b,c\n"),
    _case(
        Reason.SHEET_MISSING,
        book(cells("text"), cells("a"), name="Data"),
        book(cells("text"), cells("a"), name="data"),
        "xlsx",
        read={"sheets": ["data"]},
    ),
    _case(
        Reason.SHEET_HIDDEN,
        book(cells("text"), cells("a"), second="hidden"),
        book(cells("text"), cells("a"), second="visible"),
        "xlsx",
        read={"sheets": "visible"},
    ),
    _case(
        Reason.SHEET_UNREAD,
        book(cells("text"), cells("a"), second="visible"),
        book(cells("text"), cells("a")),
        "xlsx",
    ),
    _case(Reason.JSON_ARRAY_INVALID, '[{"text": "a"}', '[{"text": "a"}]', "json", 1),
)
