"""Which file is read by which schema, and that no other file is passed over in silence."""

from __future__ import annotations

import os
import random
import socket
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.readers.discover import Discovery, discover
from pipeline.readers.patterns import closest_pattern, matches_any
from pipeline.schema.model import Schema, schema_of


def schema(*files: str, ignore: tuple[str, ...] = (), **read: Any) -> Schema:
    return schema_of(
        {
            "version": 1,
            "name": "x",
            "kind": "table",
            "files": files,
            "ignore": ignore,
            "read": read,
            "table": {},
        }
    )


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


def claims(found: Discovery) -> list[tuple[str, int, str]]:
    return [(claim.source, claim.schema_index, claim.format) for claim in found.claims]


def notes(found: Discovery) -> dict[str, str]:
    return {note.source: note.reason.slug for note in found.notes}


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.csv", ["a.csv", "[1].csv"], ["x/a.csv", "a.CSV", "a.csv.gz"]),
        ("**/*.csv", ["a.csv", "x/y/a.csv"], ["a.txt"]),
        ("x/**", ["x/a", "x/y/a.csv"], ["x", "xy/a"]),
        ("x/**/a.*", ["x/a.b", "x/y/z/a.b"], ["x/ya.b"]),
        ("./x/?.csv", ["x/a.csv"], ["x/ab.csv", "x//.csv"]),
        ("[ab]*.csv", ["a1.csv", "b.csv"], ["c.csv"]),
        ("[!ab].csv", ["c.csv"], ["a.csv", "/.csv"]),
        ("a+(1).csv", ["a+(1).csv"], ["aa1.csv"]),
        ("é.csv", ["e\u0301.csv"], ["e.csv"]),
        ("Day*/**/*Checklist.xlsx", ["Day 1/Day 1 - Checklist.xlsx"], ["day 1/x Checklist.xlsx"]),
    ],
)
def test_patterns_match_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes + no if matches_any(path, [pattern])] == yes


@settings(max_examples=500)
@given(st.text("ab.*?[]!^-", max_size=8), st.text("ab.[]!^-", max_size=6))
@example("[]", "[]")
@example("[a-]", "-")
@example("[?-.]", "-")
@example("[!]", "[!]")
def test_within_one_folder_patterns_mean_what_the_shell_s_do(pattern: str, name: str) -> None:
    if "**" in pattern or "^" in pattern or "[[" in pattern or "[]" in pattern or "--" in pattern:
        return
    assert matches_any(name, [pattern]) == fnmatchcase(name, pattern)


def test_the_closest_pattern_has_the_same_suffix() -> None:
    assert closest_pattern("form/a.jsonl", ["forms/*.jsonl", "form/*.csv"]) == "forms/*.jsonl"
    assert closest_pattern("form/a.jsonl", []) == ""


# ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_read_by_every_schema_that_claims_it(tmp_path: Path) -> None:
    make(tmp_path, "b.csv", "a.csv", "x/c.jsonl")
    found = discover(tmp_path, [schema("**/*"), schema("*.csv"), schema("x/*")])
    assert claims(found) == [
        ("a.csv", 0, "csv"),
        ("a.csv", 1, "csv"),
        ("b.csv", 0, "csv"),
        ("b.csv", 1, "csv"),
        ("x/c.jsonl", 0, "jsonl"),
        ("x/c.jsonl", 2, "jsonl"),
    ]
    assert found.notes == ()
    assert [claim.bytes for claim in found.claims] == [len(claim.source) for claim in found.claims]


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.csv", "csv"),
        ("a.TSV", "tsv"),
        ("a.txt", "csv"),
        ("a.xlsx", "excel"),
        ("a.XLS", "excel"),
        ("a.xlsb", "excel"),
        ("a.xlsm", "excel"),
        ("a.ods", "excel"),
        ("a.json", "json"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.parquet", "parquet"),
        ("a.arrow", "arrow"),
        ("a.feather", "arrow"),
    ],
)
def test_a_format_goes_by_the_suffix(tmp_path: Path, name: str, format_: str) -> None:
    assert claims(discover(make(tmp_path, name), [schema("*")])) == [(name, 0, format_)]


def test_a_declared_format_wins(tmp_path: Path) -> None:
    make(tmp_path, "a.dat", "b.txt")
    assert claims(discover(tmp_path, [schema("*.dat", format="jsonl")])) == [("a.dat", 0, "jsonl")]
    line = {"separator": ",", "fields": ("x", "y")}
    assert claims(discover(tmp_path, [schema("b.*", line_format=line)])) == [("b.txt", 0, "lines")]


def test_a_claimed_file_of_no_known_format_is_an_error(tmp_path: Path) -> None:
    found = discover(make(tmp_path, "a.csv.gz"), [schema("*"), schema("**")])
    assert claims(found) == []
    assert notes(found) == {"a.csv.gz": "file_unreadable"}


def test_an_ignored_file_is_neither_read_nor_named(tmp_path: Path) -> None:
    make(tmp_path, "a.csv", "notes/readme.md")
    found = discover(tmp_path, [schema("**", ignore=("notes/**",))])
    assert claims(found) == [("a.csv", 0, "csv")]
    assert found.notes == ()


def test_an_unclaimed_file_is_named_with_the_closest_pattern(tmp_path: Path) -> None:
    found = discover(make(tmp_path, "a.csv", "deep/b.csv"), [schema("*.csv", "x/*.json")])
    (note,) = found.notes
    assert (note.source, note.reason.slug, note.expected) == ("deep/b.csv", "file_unclaimed", "*.csv")


# ── files that are no input ──────────────────────────────────────────────────────────────────────────────────

LITTER = [
    "~$a.xlsx",
    "._a.xlsx",
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
    ".~lock.a.xlsx#",
    "a.csv.swp",
    "a.tmp",
    "a.csv~",
    "#a.csv#",
    "a.lock",
    "a.csv.crdownload",
    ".hidden.csv",
    "x/._b.csv",
]


def test_litter_is_named_and_never_read(tmp_path: Path) -> None:
    make(tmp_path, *LITTER, "a.xlsx", "__MACOSX/a.csv", ".git/config")
    found = discover(tmp_path, [schema("**/*", "**/*.xlsx")])
    assert claims(found) == [("a.xlsx", 0, "excel")]
    assert notes(found) == dict.fromkeys([*LITTER, "__MACOSX", ".git"], "file_litter")


@pytest.mark.parametrize(("name", "pattern"), [(".hidden.csv", ".*.csv"), ("a.tmp", "*.tmp")])
def test_what_a_pattern_names_outright_is_no_litter(tmp_path: Path, name: str, pattern: str) -> None:
    assert claims(discover(make(tmp_path, name), [schema(pattern, format="csv")])) == [(name, 0, "csv")]


def test_page_images_are_one_note(tmp_path: Path) -> None:
    make(
        tmp_path,
        "forms/a.jsonl",
        "forms/images/1.png",
        "forms/images/2.PNG",
        "forms/scans/3.jpg",
        "forms/4.pdf",
    )
    found = discover(tmp_path, [schema("forms/*.jsonl")])
    (note,) = found.notes
    assert (note.source, note.reason.slug, note.found) == ("forms", "file_images", "1 .jpg, 1 .pdf, 2 .png")


# ── links and other things ───────────────────────────────────────────────────────────────────────────────────


def test_links_that_leave_the_raw_folder_are_refused(tmp_path: Path) -> None:
    outside, raw = make(tmp_path / "outside", "a.csv", "b.csv"), make(tmp_path / "raw", "in/c.csv")
    (raw / "escape.csv").symlink_to(outside / "a.csv")
    (raw / "folder").symlink_to(outside)
    (raw / "unclaimed.md").symlink_to(outside / "b.csv")
    (raw / "inside.csv").symlink_to(raw / "in" / "c.csv")
    (raw / "again").symlink_to(raw / "in")
    (raw / "loop.csv").symlink_to(raw / "loop.csv")
    (raw / "nowhere.csv").symlink_to(raw / "gone.csv")
    found = discover(raw, [schema("**/*.csv")])
    assert claims(found) == [("in/c.csv", 0, "csv"), ("inside.csv", 0, "csv")]
    assert notes(found) == {
        "again": "file_litter",
        "escape.csv": "file_path_escape",
        "folder": "file_path_escape",
        "loop.csv": "file_unreadable",
        "nowhere.csv": "file_unreadable",
        "unclaimed.md": "file_unclaimed",
    }


def test_a_raw_folder_that_is_a_link_is_entered(tmp_path: Path) -> None:
    make(tmp_path / "real", "a.csv")
    (tmp_path / "raw").symlink_to(tmp_path / "real")
    assert claims(discover(tmp_path / "raw", [schema("*")])) == [("a.csv", 0, "csv")]


def test_pipes_and_sockets_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.csv")
        assert set(notes(discover(tmp_path, [schema("*")])).values()) == {"file_unreadable"}


def test_a_name_that_is_not_utf8_is_an_error_where_it_is_claimed(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/caf\xe9.csv", os.O_CREAT))
    found = discover(tmp_path, [schema("*.csv")])
    assert claims(found) == []
    assert notes(found) == {"caf\\xe9.csv": "file_unreadable"}


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser enters every folder")
def test_a_folder_that_cannot_be_entered_is_an_error(tmp_path: Path) -> None:
    make(tmp_path, "shut/a.csv", "b.csv")
    (tmp_path / "shut").chmod(0)
    try:
        assert notes(discover(tmp_path, [schema("**")])) == {"shut": "file_unreadable"}
    finally:
        (tmp_path / "shut").chmod(0o700)


def test_a_folder_saved_by_datasets_is_read_by_its_name(tmp_path: Path) -> None:
    saved = ("data-00000-of-00002.arrow", "data-00001-of-00002.arrow")
    make(
        tmp_path,
        *(f"sets/train/{name}" for name in (*saved, "state.json", "dataset_info.json", "cache-1.arrow")),
    )
    for pattern in ("sets/train", "sets", "sets/train/*.arrow", "**/*"):
        found = discover(tmp_path, [schema(pattern)])
        assert claims(found) == [(f"sets/train/{name}", 0, "arrow") for name in saved]
        assert set(notes(found).values()) == {"file_litter"}


def test_discovery_does_not_depend_on_the_order_of_the_folder(tmp_path: Path) -> None:
    names = [f"{letter}/{i}.csv" for letter in "zaM" for i in (10, 2, 1)] + ["u.md", "~$x.xlsx"]
    orders = []
    for i in range(2):
        random.Random(i).shuffle(names)
        found = discover(make(tmp_path / str(i), *names), [schema("**/*.csv")])
        orders.append((claims(found), [note.source for note in found.notes]))
    assert orders[0] == orders[1]
    assert orders[0][0] == sorted(orders[0][0])
