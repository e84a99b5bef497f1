"""Findings about records as they are read: rows, quotes, lines, JSON, cells and groups."""

from __future__ import annotations

from typing import Any

from pipeline.reasons import Reason
from tests.reasons.books import book, cells
from tests.reasons.case import NONE, Case, Slugs, table

MIB = 2**20
TWO = {"text": {}, "more": {"required": False}}
NUMBER = {"text": {}, "age": {"type": "integer", "required": False}}
FORMULA = '<c r="{at}"><f>A1</f>%s</c>'
ERROR = '<c r="{at}" t="%s"><v>#N/A</v></c>'
LONGEST = 32_767
"""Characters of a spreadsheet's longest cell."""


def _csv(reason: Reason, content: str, at: int, near: int, columns: Any = TWO, **more: Any) -> Case:
    """One delimited file with the bad row and the near miss."""
    schema = table(columns, files=["*.csv"], read=more.pop("read", {}))
    return Case(reason, schema, {"a.csv": content}, f"a.csv:{at}", f"a.csv:{near}", **more)


def _jsonl(reason: Reason, bad: str, near: str, columns: Any = None, **more: Any) -> Case:
    """Two lines."""
    schema = table(columns, read=more.pop("read", {}))
    return Case(reason, schema, {"a.jsonl": f"{bad}\n{near}\n"}, "a.jsonl:1", "a.jsonl:2", **more)


def _sheet(reason: Reason, bad: str, near: str, after: str = "", **more: Any) -> Case:
    """Two rows of a sheet: a text in column A, and the cell in column B."""
    schema = table({"id": {}, "text": more.pop("column", {})}, files=["*.xlsx"], read=more.pop("read", {}))
    rows = (cells("id", "text"), cells("a", bad), cells("b", near))
    return Case(reason, schema, {"a.xlsx": book(*rows, after=after)}, "a.xlsx:2", "a.xlsx:3", **more)


def _group(reason: Reason, bad: str, near: str, at: int, beside: Slugs = NONE) -> Case:
    """Rows of groups: the first two of the file are one, the next two another."""
    schema = table({"text": {}}, files=["*.csv"], read={"group_by": {"key": "page"}})
    content = f"page,text\n{bad}{near}"
    return Case(reason, schema, {"a.csv": content}, f"a.csv:{at}", "a.csv:4", beside=beside)


def _long(size: int) -> str:
    """A record of so many bytes, what stands behind it not counted."""
    return '{"text": "' + "a" * (size - 12) + '"}'


MANY = "1,\n" * 2_000_000
RECORD_MB = {"limits": {"record_mb": 1}}

CASES = (
    _csv(Reason.ROW_RAGGED, "text,more\na,b,c\na,b\n", 2, 3, name="too_many"),
    _csv(Reason.ROW_RAGGED, "text,more\na\na,\n", 2, 3, name="too_few"),
    _csv(Reason.QUOTE_UNCLOSED, 'text,more\n"a,b\n"a",b\n', 2, 3),
    _csv(Reason.QUOTE_STRAY, 'text,more\n"a"a,b\n"a""a",b\n', 2, 3),
    Case(
        Reason.LINE_FORMAT,
        table(
            files=["*.txt"], read={"line_format": {"separator": ",", "fields": ["key", "text"], "rest": True}}
        ),
        {"a.txt": "key\nkey,a\n"},
        at="a.txt:1",
        near="a.txt:2",
    ),
    _jsonl(Reason.LINE_TOO_LONG, _long(MIB + 1), _long(MIB), read=RECORD_MB, name="jsonl"),
    _csv(
        Reason.LINE_TOO_LONG,
        f"text,more\n{'a' * (MIB - 1)},b\n{'a' * (MIB - 2)},b\n",
        2,
        3,
        read=RECORD_MB,
        name="csv",
    ),
    Case(
        Reason.LINE_TOO_LONG,
        table(files=["*.json"], read=RECORD_MB),
        {"a.json": f"[{_long(MIB)},{_long(MIB - 1)},{_long(13)}]"},
        at="a.json:1",
        near="a.json:2",
        name="json",
    ),
    Case(  # pieces of a file are 4 MiB
        Reason.LINE_TOO_LONG,
        table(files=["*.json"], read=RECORD_MB),
        {"a.json": f'[{{"more": [\n{MANY}1\n],\n"text": "a"}},{_long(MIB - 1)},{_long(13)}]'},
        at="a.json:1",
        near="a.json:2",
        name="json_of_pieces",
    ),
    _jsonl(Reason.JSON_INVALID, '{"text": "a",}', '{"text": "a"}'),
    _jsonl(Reason.JSON_NOT_OBJECT, '["text", "a"]', '{"text": "a"}'),
    _jsonl(Reason.JSON_DUPLICATE_KEY, '{"text": "a", "text": "a"}', '{"text": "a", "Text": "a"}'),
    _jsonl(Reason.JSON_NON_FINITE, '{"text": "a", "x": NaN}', '{"text": "a", "x": "NaN"}', name="not_read"),
    _jsonl(
        Reason.JSON_NON_FINITE, '{"text": "a", "age": NaN}', '{"text": "a", "age": null}', NUMBER, name="read"
    ),
    _jsonl(
        Reason.JSON_INTEGER_OVERFLOW,
        f'{{"text": "a", "age": {2**63}}}',
        f'{{"text": "a", "age": {2**63 - 1}}}',
        NUMBER,
    ),
    _jsonl(
        Reason.JSON_TOO_DEEP,
        '{"text": "a", "x": [[1]]}',
        '{"text": "a", "x": [1]}',
        read={"limits": {"depth": 2}},
    ),
    _sheet(Reason.CELL_ERROR, ERROR % "e", ERROR % "str"),
    _sheet(
        Reason.CELL_FORMULA_EMPTY,
        FORMULA % "",
        FORMULA % "<v>1</v>",
        column={"required": False},
    ),
    _csv(
        Reason.CELL_JSON_INVALID,
        'text,more\na,{\'x\': 1}\na,"{""x"": 1}"\n',
        2,
        3,
        {"text": {}, "more": {"type": "json"}},
    ),
    _sheet(Reason.CELL_ESCAPE_DECODED, "a_x000D_b", "a_x00D_b"),
    _sheet(Reason.CELL_TRUNCATED_AT_SOURCE, "a" * LONGEST, "a" * (LONGEST - 1)),
    Case(
        Reason.MERGED_CELL_FILLED,
        table({"id": {}, "text": {}}, files=["*.xlsx"], read={"merged": "fill"}),
        {
            "a.xlsx": book(
                cells("id", "text"),
                cells("a", "x"),
                cells("b"),
                cells("c", "x"),
                after='<mergeCells count="1"><mergeCell ref="B2:B3"/></mergeCells>',
            )
        },
        at="a.xlsx:3",
        near="a.xlsx:4",
    ),
    _group(Reason.GROUP_KEY_MISSING, "p,a\n,a\n", "q,a\nq,a\n", at=3),
    _group(Reason.GROUP_INCONSISTENT, "p,a\np,b\n", "q,a\nq,a\n", at=2),
)
