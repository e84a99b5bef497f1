"""Fifty thousand mutants of valid files: never a crash, never a lost record, never a good record that is none."""

from __future__ import annotations

import csv
import io
import json
import math
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FileFault
from tests.readers.mutants import mutants
from tests.readers.tables import TEXT, Result, read_bytes, schema

pytestmark = pytest.mark.slow

FIELDS = (
    Field("id", "id", TEXT),
    Field("n", "n", FieldType(Kind.INTEGER)),
    Field("tags", "tags", FieldType(Kind.LIST, item=TEXT), required=False),
)
CSV_SEED = b"".join(
    (
        b"id,n,note\r\n",
        b'a1,1,"one, with\nbreak"\r\n',
        'é2,2,"say ""hi"""\r\n'.encode(),
        b"a3,3,plain\r\n",
        b'"a4",4,""\r\n',
        b'a5,5,5" pipe\r\n',
        b'a6,6,"end"\r\n',
    )
)
RECORDS: list[dict[str, Any]] = [
    {"id": "a1", "n": 1, "tags": ["x", "é"]},
    {"id": "a\u20ac2", "n": -2, "more": {"a": [1.5, None, True], "b": '\\ " \n'}},
    {"id": "a3", "n": 3, "tags": []},
    {"id": "a4: {[", "n": 4, "tags": None},
    {"id": "a5", "n": 9223372036854775807},
]
JSONL_SEED = b"".join(json.dumps(r, ensure_ascii=i % 2 == 0).encode() + b"\n" for i, r in enumerate(RECORDS))
JSON_SEED = json.dumps(RECORDS, indent=1, ensure_ascii=False).encode()
MUTANTS, PARTS = 2_500, range(7)
RULES = schema()


def read(folder: Path, data: bytes, name: str) -> Result | None:
    """What comes out; None when the file as a whole is refused."""
    try:
        return read_bytes(folder, data, name, FIELDS, RULES, cast=True)
    except FileFault:
        return None


def strict(text: bytes) -> Any:
    """The value of a strict JSON text. Raises ``ValueError`` for anything else, repeated keys among it."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError("a key stands twice")
        return found

    def refuse(literal: str) -> None:
        raise ValueError(literal)

    return json.loads(text.decode(), object_pairs_hook=pairs, parse_constant=refuse)


def is_good(record: Any) -> bool:
    """Whether a record fits the fields, by rules of its own."""

    def is_text(value: Any) -> bool:
        return isinstance(value, str) and not any(c in value for c in "\0\ufffd") and not _lone(value)

    if not isinstance(record, dict) or not is_text(record.get("id")):
        return False
    n, tags = record.get("n"), record.get("tags")
    if isinstance(n, bool) or not isinstance(n, (int, float)) or not math.isfinite(n) or n != int(n):
        return False
    return -(2**63) <= n < 2**63 and (tags is None or (isinstance(tags, list) and all(map(is_text, tags))))


def _lone(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


def good_rows(result: Result) -> dict[int, dict[str, Any]]:
    """Row → values of the records without a quarantine finding."""
    found: dict[int, dict[str, Any]] = {}
    for batch, findings in zip(result.batches, result.findings, strict=True):
        rejected = set(findings.rejected().tolist())
        records = zip(batch.ids.tolist(), batch.rows.tolist(), batch.frame.to_dicts(), strict=True)
        found |= {row: values for record, row, values in records if record not in rejected}
    return found


@pytest.mark.parametrize("part", PARTS)
def test_json_lines(tmp_path: Path, part: int) -> None:
    for data in mutants(JSONL_SEED, Random(f"jsonl {part}"), MUTANTS):
        result = read(tmp_path, data, "x.jsonl")
        if result is None or data.startswith((b"\xff\xfe", b"\xfe\xff")):
            continue
        body = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = {i: line for i, line in enumerate(body.split(b"\n"), 1) if line.strip(b" \t\r\n")}
        assert result.rows == list(lines), data
        good = good_rows(result)
        for row, line in lines.items():
            try:
                value = strict(line)
            except (ValueError, RecursionError):
                value = None
            # A key that is not read may repeat below the top: that loses nothing of the record.
            if row not in good:
                assert not is_good(value) or _many(line), (data, row)
                continue
            if value is None:
                value = json.loads(line)
                assert _repeats_below(line), (data, row)
            assert is_good(value), (data, row)
            assert good[row] == {"id": value["id"], "n": int(value["n"]), "tags": value.get("tags")}, (
                data,
                row,
            )


def _many(line: bytes) -> bool:
    """Whether an integer that is read stands beyond what a double tells from its neighbours."""
    n = json.loads(line).get("n")
    return isinstance(n, float) and abs(n) >= 2**53


def _repeats_below(line: bytes) -> bool:
    """Whether the only fault of a line are repeated keys inside of a value that is not read."""
    value = json.loads(line)
    value.pop("more", None)
    rest = json.loads(line, object_pairs_hook=lambda pairs: pairs)
    keys = [key for key, _ in rest]
    return len(keys) == len(set(keys)) and is_good(value)


@pytest.mark.parametrize("part", PARTS)
def test_json_documents(tmp_path: Path, part: int) -> None:
    for data in mutants(JSON_SEED, Random(f"json {part}"), MUTANTS):
        result = read(tmp_path, data, "x.json")
        try:
            value = strict(data.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError):
            value = None
        if result is None:
            assert value is None, data
            continue
        raw = dict(zip(result.rows, result.raw, strict=True))
        assert len(raw) == len(result.rows), data
        if isinstance(value, list):
            assert list(raw) == list(range(1, len(value) + 1)), data
        for row, values in good_rows(result).items():
            record = json.loads((raw[row] or b"").decode())
            assert is_good(record), (data, row)
            assert values == {"id": record["id"], "n": int(record["n"]), "tags": record.get("tags")}, (
                data,
                row,
            )
            if isinstance(value, list):
                assert value[row - 1] == record, (data, row)


@pytest.mark.parametrize("part", PARTS)
def test_csv(tmp_path: Path, part: int) -> None:
    for data in mutants(CSV_SEED, Random(f"csv {part}"), MUTANTS):
        result = read(tmp_path, data, "x.csv")
        if result is None or data.startswith((b"\xff\xfe", b"\xfe\xff")):
            continue
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        assert result.rows == sorted(set(result.rows)), data
        delimiter = result.partitions[0].delimiter if result.partitions else ","
        header = result.partitions[0].header if result.partitions else ()
        # Every line with something on it is inside of the record before it, or begins one, or is blank.
        starts = {*result.rows}
        for row, values in good_rows(result).items():
            rest = "\n".join(lines[row - 1 :])
            reader = csv.reader(io.StringIO(rest, newline=""), delimiter=delimiter)
            cells = next(reader)
            assert len(cells) == len(header), (data, row)
            record = dict(zip(header, cells, strict=True))
            shown = values["id"].replace("\r\n", "\n").replace("\r", "\n")
            assert shown == record["id"], (data, row)
            assert values["n"] == int(float(record["n"])), (data, row)
            end = row + reader.line_num
            assert not starts & set(range(row + 1, end)), (data, row)


def workbook(folder: Path) -> bytes:
    """A small workbook whose parts are stored as they are, so that a mutation reaches the parser."""
    import xlsxwriter

    path = folder / "seed.xlsx"
    book = xlsxwriter.Workbook(path)
    sheet = book.add_worksheet("data")
    for place, row in enumerate(
        [("id", "n", "note"), ("a1", 1, "one"), ("é2", 2, "two\nlines"), ("a3", 3.5, "")]
    ):
        sheet.write_row(place, 0, row)
    book.close()
    stored = io.BytesIO()
    with zipfile.ZipFile(path) as packed, zipfile.ZipFile(stored, "w", zipfile.ZIP_STORED) as plain:
        for name in packed.namelist():
            plain.writestr(name, packed.read(name))
    return stored.getvalue()


@pytest.mark.parametrize("part", range(2))
def test_workbooks(tmp_path: Path, part: int) -> None:
    seed = workbook(tmp_path)
    whole = read(tmp_path, seed, "x.xlsx")
    assert whole is not None and len(good_rows(whole)) == 2
    refused = 0
    for data in mutants(seed, Random(f"xlsx {part}"), 150):
        result = read(tmp_path, data, "x.xlsx")
        refused += result is None
        if result is not None:
            assert result.rows == sorted(set(result.rows))
            assert all(
                isinstance(row["id"], str) and isinstance(row["n"], int) for row in good_rows(result).values()
            )
    assert refused
