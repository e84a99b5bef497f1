"""The reader decides what the JSON standard leaves open as the table in docs/reading.md says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FileFault
from tests.readers.tables import read_bytes, schema

ANY = Field("x", "x", FieldType(Kind.JSON), required=False)
LISTS = {kind: FieldType(Kind.LIST, item=FieldType(kind)) for kind in (Kind.NUMBER, Kind.INTEGER, Kind.TEXT)}


@dataclass(frozen=True, slots=True)
class Choice:
    """What becomes of a text: as a document of its own, as a line, and as the value ``x`` of a record's line that is
    read as any JSON or as a list of numbers, of integers, of texts. "" is no finding, None: cannot stand there."""

    document: str
    line: str
    json: str | None
    number: str | None
    integer: str | None
    text: str | None


ARRAY = "json_not_object"
"""The suite's texts are arrays for the most part, and a record is an object."""
CHOICES = {
    "beyond doubles": Choice(ARRAY, ARRAY, "", "value_not_finite", "value_type", "value_type"),
    "below doubles": Choice(ARRAY, ARRAY, "", "", "value_type", "value_type"),
    "beyond 64 bits": Choice(
        ARRAY, ARRAY, "", "json_integer_overflow", "json_integer_overflow", "value_type"
    ),
    "half a pair": Choice(
        ARRAY, ARRAY, "text_invalid_unicode", "value_type", "value_type", "text_invalid_unicode"
    ),
    "half a pair as key": Choice("", "", "text_invalid_unicode", "value_type", "value_type", "value_type"),
    "not utf-8": Choice("file_encoding", "json_invalid", *["json_invalid"] * 4),
    "utf-16 with mark": Choice(ARRAY, ARRAY, None, None, None, None),
    "utf-16 without mark": Choice("file_encoding", "json_invalid", None, None, None, None),
    "nested 500 deep": Choice(*["json_too_deep"] * 6),
    "utf-8 with mark": Choice("", "", None, None, None, None),
}
OWN = {
    "beyond doubles": [b"[2e308]", b"[-7E+401]", b"[0.1e99999999999999999999999]"],
    "below doubles": [b"[2e-400]", b"[-3.5E-99999]", b"[1e-99999999999999999999999]"],
    "beyond 64 bits": [b"[9223372036854775808]", b"[-9223372036854775809]", b"[" + b"7" * 60 + b"]"],
    "half a pair": [rb'["a\uD83D"]', rb'["\uDE00b"]', rb'["\uDE00\uD83D"]', rb'["\uD83D\uD83D\t"]'],
    "half a pair as key": [rb'{"a\uD83D":1}'],
    "not utf-8": [
        b'["caf\xe9"]',
        b'["\xc1\xbf"]',
        b'["\xf8\x88\x80\x80\x80"]',
        b'["\xf5\x80\x80\x80"]',
        b'["\xed\xbf\xbf"]',
        b'["\xe2\x82"]',
        b'["\xbf"]',
    ],
    "utf-16 with mark": [
        '["né"]'.encode("utf-16-le").join((b"\xff\xfe", b"")),
        "\ufeff[1]".encode("utf-16-be"),
    ],
    "utf-16 without mark": ['["né"]'.encode("utf-16-le"), '["né"]'.encode("utf-16-be")],
    "nested 500 deep": [b"[" * 500 + b"]" * 500],
    "utf-8 with mark": [b"\xef\xbb\xbf{}", b'\xef\xbb\xbf{"a": 1}'],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in OWN.items() for text in texts])
def test_each_kind_is_treated_as_the_table_says(kind: str, text: bytes, tmp_path: Path) -> None:
    assert found(text, tmp_path) == CHOICES[kind]


def test_the_documentation_says_the_same(root: Path) -> None:
    assert {kind: choice for kind, (choice, _) in table(root).items()} == CHOICES


@pytest.mark.shared
def test_each_open_file_of_the_public_suite_is_treated_so(shared: Path, root: Path, tmp_path: Path) -> None:
    files = sorted((shared / "data/jsontestsuite/test_parsing").glob("i_*.json"))
    listed = {name: choice for choice, names in table(root).values() for name in names}
    assert len(files) == len(listed) == 35
    for path in files:
        assert found(path.read_bytes().strip(b"\n"), tmp_path) == listed[path.stem[2:]], path.name


def test_numbers_of_any_size_keep_their_digits_as_json(tmp_path: Path) -> None:
    text = b"[100000000000000000000, 2e308, 2e-400]"
    kept = read_bytes(tmp_path, b'{"x":' + text + b"}\n", "a.jsonl", (ANY,), schema(), cast=True)
    assert kept.frame == [{"x": text.decode()}]


def test_a_declared_encoding_reads_what_has_no_mark(tmp_path: Path) -> None:
    for codec in ("utf-16-le", "utf-16-be", "latin-1"):
        data = '[{"x":"né"}]'.encode(codec)
        result = read_bytes(tmp_path, data, "a.json", (ANY,), schema(encodings=(codec,)), cast=True)
        assert (result.frame, result.hits) == ([{"x": '"né"'}], [])


def test_half_a_pair_in_what_is_not_read_costs_nothing(tmp_path: Path) -> None:
    data = rb'{"x":1,"other":"\uD83D","\uD83D":2}'
    result = read_bytes(tmp_path, data, "a.jsonl", (ANY,), schema(), cast=True)
    assert (result.frame, result.hits) == ([{"x": "1"}], [])


def table(root: Path) -> dict[str, tuple[Choice, list[str]]]:
    """The table of docs/reading.md: the choice of each kind, and the files of the suite that are about it."""
    lines = (root / "docs/reading.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    shown = {"kept": "", "–": None}
    return {
        kind: (Choice(*(shown.get(cell, cell.strip("`")) for cell in cells)), re.findall("`(.*?)`", names))
        for kind, *cells, names in rows[1:]
    }


def found(text: bytes, folder: Path) -> Choice:
    """What becomes of the text in all six places."""
    inside: dict[Kind, str | None] = dict.fromkeys((Kind.JSON, *LISTS))
    if b"\0" not in text and not text.startswith(b"\xef\xbb\xbf"):
        line = b'{"x":' + text + b"}\n"
        for kind in inside:
            field = Field("x", "x", LISTS.get(kind, FieldType(Kind.JSON)))
            inside[kind] = _reasons(folder, line, "a.jsonl", field)
    return Choice(
        _reasons(folder, text, "a.json", ANY),
        _reasons(folder, text, "a.jsonl", ANY),
        *(inside[kind] for kind in (Kind.JSON, Kind.NUMBER, Kind.INTEGER, Kind.TEXT)),
    )


def _reasons(folder: Path, data: bytes, name: str, field: Field) -> str:
    try:
        result = read_bytes(folder, data, name, (field,), schema(), cast=True)
    except FileFault as fault:
        return fault.note.reason.slug
    assert len(result.rows) == 1
    return ", ".join(sorted({reason for _, reason in result.reasons}))
