"""Real delimited and JSON files: equal to their oracles, every record in place."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FileFault
from pipeline.readers.discover import Claim
from pipeline.readers.header import clean_names
from pipeline.reasons import Reason
from tests.readers.tables import TEXT, Result, read_claim, schema, text_fields

pytestmark = pytest.mark.shared


def read(path: Path, format_: str, fields: tuple[Field, ...], **reading: object) -> Result:
    claim = Claim(0, path.name, path, format_, path.stat().st_size)
    return read_claim(claim, fields, schema(**reading), cast=True)


def test_csv_spectrum_is_equal_to_its_json(shared: Path) -> None:
    files = sorted((shared / "data" / "csv-spectrum" / "csvs").glob("*.csv"))
    assert len(files) == 12
    for path in files:
        oracle = json.loads((path.parent.parent / "json" / f"{path.stem}.json").read_text())
        if b"\r" not in path.read_bytes():  # some stored copies have lost the CR that their oracle expects
            oracle = json.loads(json.dumps(oracle).replace("\\r\\n", "\\n"))
        oracle = oracle if isinstance(oracle, list) else [oracle]
        if path.stem == "location_coordinates":  # the published oracle has another phone number than its file
            oracle = [{k: v for k, v in row.items() if k != "Contact Phone Number"} for row in oracle]
        names = list(oracle[0])
        result = read(path, "csv", text_fields(*names, required=False))
        assert [{k: v or "" for k, v in row.items()} for row in result.frame] == oracle, path.name
        lost = {"text_invalid_unicode"} if "\ufffd" in path.read_text("utf-8") else set()
        assert {reason for _, reason in result.reasons} == lost, path.name


def test_the_json_test_suite(shared: Path) -> None:
    fields = (Field("id", "id", TEXT, required=False),)
    broken = {
        "json_invalid",
        "json_non_finite",
        "json_too_deep",
        "file_empty",
        "file_encoding",
        "json_array_invalid",
    }
    counts = {"y": 0, "n": 0, "i": 0}
    for path in sorted((shared / "data" / "jsontestsuite" / "test_parsing").glob("*.json")):
        try:
            result = read(path, "json", fields)
            found = {reason for _, reason in result.reasons} | {note.reason.slug for note in result.notes}
        except FileFault as fault:
            found = {fault.note.reason.slug}
        kind = path.name[0]
        counts[kind] += 1
        if (
            kind == "y"
        ):  # a JSON text is no fault; a value that is no object, or a key that stands twice, is one here
            assert not found & (broken - {"file_empty"}), path.name
        elif kind == "n":
            assert found & broken, path.name
    assert counts == {"y": 95, "n": 188, "i": 35}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("MTS-Dialog-TrainingSet.csv", 1201),
        ("MTS-Dialog-ValidationSet.csv", 100),
        ("MTS-Dialog-TestSet-1-MEDIQA-Chat-2023.csv", 200),
        ("MTS-Dialog-TestSet-2-MEDIQA-Sum-2023.csv", 200),
    ],
)
def test_dialogues_with_line_breaks_in_cells(shared: Path, name: str, count: int) -> None:
    path = shared / "data" / "mts-dialog" / name
    result = read(path, "csv", text_fields("ID", "section_text", "dialogue"))
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        oracle, lines = [], []
        for row in reader:
            oracle.append({k: row[k] for k in ("ID", "section_text", "dialogue")})
            lines.append(reader.line_num)
    assert result.frame == oracle
    assert len(result.good) == count
    assert [r - 1 for r in result.rows[1:]] == lines[:-1]  # a record starts where the one before ends


@pytest.mark.parametrize(
    ("name", "delimiter"),
    [
        ("csv-comma.csv", ","),
        ("csv-semicolon.csv", ";"),
        ("csv-tab.csv", "\t"),
        ("csv-pipe.csv", "|"),
        ("csv-comma-in-cell.csv", ","),
        ("csv-single-column.csv", ","),
        ("csv-too-few-columns.csv", ","),
        ("csv-too-many-columns.csv", ","),
        ("csv-inconsistent-header.csv", ","),
    ],
)
def test_tables_of_a_document_converter(shared: Path, name: str, delimiter: str) -> None:
    path = shared / "data" / "docling-tables" / name
    with path.open(newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    names = clean_names(rows[0])
    result = read(path, "csv", text_fields(*names, required=False))
    whole = [row for row in rows[1:] if len(row) == len(names)]
    assert [[v or "" for v in row.values()] for row in result.good] == whole
    assert len(result.rows) == len(rows) - 1
    assert len(result.reasons) == len(rows) - 1 - len(whole)


def test_json_lists_of_chats(shared: Path) -> None:
    folder = shared / "data" / "llamafactory-demo"
    for name, field, count in (
        ("identity.json", Field("instruction", "instruction", TEXT), 91),
        ("kto_en_demo.json", Field("messages", "messages", FieldType(Kind.JSON)), 300),
        ("glaive_toolcall_en_demo.json", Field("tools", "tools", TEXT), 300),
    ):
        result = read(folder / name, "json", (field,))
        assert len(result.good) == count, name
    for name, count in (("v1_dpo_demo.jsonl", 10), ("reason_tool_use_demo_50.jsonl", 50)):
        lines = (folder / name).read_text().splitlines()
        key = next(iter(json.loads(lines[0])))
        result = read(folder / name, "jsonl", (Field("x", key, FieldType(Kind.JSON)),))
        assert [json.loads(row["x"]) for row in result.good] == [json.loads(line)[key] for line in lines]
        assert len(result.good) == count, name


def test_pages_of_tab_separated_tokens(shared: Path) -> None:
    names = ("token", "x0", "y0", "x1", "y1", "r", "g", "b", "font", "label")
    fields = (
        Field("@words", "token", FieldType(Kind.WORDS), grouped=True),
        Field("@boxes", names[1:5], FieldType(Kind.BOXES), wrong=Reason.BBOX_UNPARSED, grouped=True),
        Field("@labels", "label", FieldType(Kind.LABELS), grouped=True),
    )
    count = 0
    for path in sorted((shared / "data" / "docbank").glob("*.txt")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = [line.rstrip("\r\n").split("\t") for line in file if line.strip()]
        result = read(
            path,
            "lines",
            fields,
            format="lines",
            line_format={"separator": "\t", "fields": names},
            group_by={},
        )
        assert len(result.good) == 1, path.name
        assert result.good[0]["@words"] == [row[0] for row in rows]
        assert result.good[0]["@boxes"] == [[float(v) for v in row[1:5]] for row in rows]
        assert result.good[0]["@labels"] == [row[9] for row in rows]
        count += len(rows)
    assert count == 61_162
