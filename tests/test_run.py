"""The whole job: nothing is lost, nothing is certified that an independent oracle refuses, the same bytes twice."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.certificate.statement import parse
from pipeline.report.events import Options, SilentWatch, Summary
from pipeline.run import run

SCHEMA = """\
version: 1
name: notes
kind: table
files: ["**/*.csv", "**/*.jsonl"]
columns:
  id: {required: false, blank: allow}
  text: {max_characters: 12}
  age: {type: integer, min: 0, max: 120, required: false}
table: {}
quarantine: {max_rate: 1.0}
"""
BLANKS = " \t\u200b\u00a0"
CELLS = st.text(alphabet="ab,\"'; é😀\t\u200b", max_size=14)
ROWS = st.lists(
    st.tuples(CELLS, st.sampled_from(["", "7", "0", "121", "-1", "x", "5.0", " 12 "])), max_size=10
)


def sanitize(folder: Path, schema: str = SCHEMA, clean: str = "clean", **chosen: Any) -> Summary:
    path = folder / "schema.yaml"
    path.write_text(schema)
    return run(Options(folder / "raw", folder / clean, (path,), fsync=False, **chosen), SilentWatch())


def rows_of(clean: Path, dataset: str) -> list[dict[str, Any]]:
    statement = parse((clean / "certificate.json").read_bytes())
    rows: list[dict[str, Any]] = []
    for name in statement.datasets[dataset]["parts"]:
        with pa.ipc.open_stream((clean / dataset / "data" / name).read_bytes()) as stream:
            rows += stream.read_all().to_pylist()
    return rows


def bytes_of(clean: Path) -> dict[str, bytes]:
    return {p.relative_to(clean).as_posix(): p.read_bytes() for p in sorted(clean.rglob("*")) if p.is_file()}


def fresh() -> Path:
    folder = Path(tempfile.mkdtemp())
    (folder / "raw").mkdir()
    return folder


def passes(text: str, age: str) -> bool:
    """The oracle: plain Python, nothing of the pipeline."""
    if not text.strip(BLANKS) or len(text) > 12:
        return False
    age = age.strip()
    if not age:
        return True
    try:
        return float(age).is_integer() and 0 <= float(age) <= 120
    except ValueError:
        return False


def write_csv(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["id", "text", "age"])
        writer.writerows([str(i), *row] for i, row in enumerate(rows))


@settings(max_examples=25)
@given(ROWS)
def test_rows_are_certified_exactly_where_the_oracle_says_so_and_none_is_lost(
    rows: list[tuple[str, str]],
) -> None:
    folder = fresh()
    rows = [*rows, ("good", "1")]
    write_csv(folder / "raw" / "a.csv", rows)
    totals = sanitize(folder).totals
    certified = {int(row["id"]): row["text"] for row in rows_of(folder / "clean", "notes")}
    assert certified == {i: text for i, (text, age) in enumerate(rows) if passes(text, age)}
    assert totals["rows_read"] == len(rows) == totals["certified"] + totals["quarantined"]
    shutil.rmtree(folder)


@settings(max_examples=10)
@given(ROWS)
def test_judging_the_certified_rows_again_finds_nothing_and_gives_them_back(
    rows: list[tuple[str, str]],
) -> None:
    folder = fresh()
    write_csv(folder / "raw" / "a.csv", [*rows, ("good", "1")])
    sanitize(folder)
    once = [(row["id"], row["text"], row["age"]) for row in rows_of(folder / "clean", "notes")]
    (folder / "raw" / "a.csv").unlink()
    lines = (json.dumps({"id": i, "text": text, "age": age}) for i, text, age in once)
    (folder / "raw" / "b.jsonl").write_text("\n".join(lines))
    totals = sanitize(folder, clean="again").totals
    assert (totals["quarantined"], totals["repairs"]) == (0, {})
    assert [(row["id"], row["text"], row["age"]) for row in rows_of(folder / "again", "notes")] == once
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id,text,age\n1,one,1\n2,two,2\n"),
        ("a.jsonl", '{"id": "1", "text": "one", "age": 1}\n{"id": "2", "text": "two", "age": 2}\n'),
    ],
)
def test_the_accounts_do_not_tell_how_a_file_was_read(tmp_path: Path, name: str, text: str) -> None:
    """The same records with other line ends take another way through the reader, and leave the same accounts."""
    found = []
    for end in ("\n", "\r\n", "\r") if name.endswith("csv") else ("\n", "\r\n"):
        folder = tmp_path / str(len(found))
        (folder / "raw").mkdir(parents=True)
        (folder / "raw" / name).write_text(text, newline=end)
        sanitize(folder)
        statement = parse((folder / "clean" / "certificate.json").read_bytes())
        accounts = [
            {key: value for key, value in receipt.to_json().items() if key not in ("memo", "sha256", "bytes")}
            for receipt in statement.receipts()
        ]
        found.append((accounts, statement.predicate["totals"], rows_of(folder / "clean", "notes")))
    assert found[0][0][0]["dropped"] == {}
    assert found[0][1]["dropped"] == {}
    assert all(one == found[0] for one in found)


@settings(max_examples=8)
@given(ROWS, ROWS)
def test_the_same_bytes_from_scratch_and_step_by_step(
    first: list[tuple[str, str]], second: list[tuple[str, str]]
) -> None:
    folder = fresh()
    write_csv(folder / "raw" / "b.csv", [*first, ("good", "1")])
    sanitize(folder)
    write_csv(folder / "raw" / "a.csv", [*second, ("fine", "2")])
    sanitize(folder)
    sanitize(folder, clean="scratch")
    step, scratch = bytes_of(folder / "clean"), bytes_of(folder / "scratch")
    assert {name: step[name] for name in scratch} == scratch
    shutil.rmtree(folder)


SPLIT = SCHEMA + "split: {key: id, shares: {train: 0.7, eval: 0.3}}\n"


def test_splits_have_every_record_once_and_keep_it_when_rows_are_added(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = [(f"text {i}", "1") for i in range(60)]
    write_csv(tmp_path / "raw" / "a.csv", rows)
    sanitize(tmp_path, SPLIT)
    before = {
        name: {r["id"] for r in rows_of(tmp_path / "clean", f"notes.{name}")} for name in ("train", "eval")
    }
    assert sorted(before["train"] | before["eval"], key=int) == [str(i) for i in range(60)]
    assert not before["train"] & before["eval"]
    assert min(map(len, before.values())) > 8
    write_csv(tmp_path / "raw" / "a.csv", [*rows, *((f"more {i}", "1") for i in range(20))])
    sanitize(tmp_path, SPLIT)
    for name, ids in before.items():
        assert ids <= {r["id"] for r in rows_of(tmp_path / "clean", f"notes.{name}")}


DEDUP = SCHEMA.replace("  id: {required: false, blank: allow}\n", "")


def test_the_same_content_is_counted_and_stays_by_default(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    write_csv(tmp_path / "raw" / "a.csv", [("one", "1"), ("two", "1"), ("one", "1")])
    write_csv(tmp_path / "raw" / "b.csv", [("two", "1"), ("three", "1")])
    summary = sanitize(tmp_path, DEDUP)
    assert summary.totals["certified"] == 5
    assert summary.outcome.statement.predicate["repeated"] == {"notes": {"duplicate_row": 2}}
    noted = {(row["source"], row["row"]): row["notes"] for row in rows_of(tmp_path / "clean", "notes")}
    assert {place for place, notes in noted.items() if notes} == {("a.csv", 4), ("b.csv", 2)}
    assert noted["b.csv", 2] == ["duplicate_row"]


def test_the_note_of_a_duplicate_goes_when_the_first_is_gone_as_from_scratch(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    write_csv(tmp_path / "raw" / "a.csv", [("one", "1")])
    write_csv(tmp_path / "raw" / "b.csv", [("one", "1"), ("two", "1")])
    sanitize(tmp_path, DEDUP)
    assert [row["notes"] for row in rows_of(tmp_path / "clean", "notes")] == [[], ["duplicate_row"], []]
    assert sanitize(tmp_path, DEDUP).outcome.unchanged
    (tmp_path / "raw" / "a.csv").unlink()
    sanitize(tmp_path, DEDUP)
    assert [row["notes"] for row in rows_of(tmp_path / "clean", "notes")] == [[], []]
    sanitize(tmp_path, DEDUP, clean="scratch")
    step, scratch = bytes_of(tmp_path / "clean"), bytes_of(tmp_path / "scratch")
    assert {name: step[name] for name in scratch} == scratch


def test_all_but_the_first_go_to_the_quarantine_when_the_schema_says_so(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    schema = DEDUP + "policies: {duplicate_row: quarantine}\n"
    write_csv(tmp_path / "raw" / "a.csv", [("one", "1"), ("two", "1"), ("one", "1")])
    write_csv(tmp_path / "raw" / "b.csv", [("two", "1"), ("three", "1")])
    totals = sanitize(tmp_path, schema).totals
    assert totals["reasons"] == {"duplicate_row": 2}
    kept = [(row["source"], row["text"]) for row in rows_of(tmp_path / "clean", "notes")]
    assert kept == [("a.csv", "one"), ("a.csv", "two"), ("b.csv", "three")]


def test_a_duplicate_comes_back_when_the_first_is_gone_as_from_scratch(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    schema = DEDUP + "policies: {duplicate_row: quarantine}\n"
    write_csv(tmp_path / "raw" / "a.csv", [("one", "1")])
    write_csv(tmp_path / "raw" / "b.csv", [("one", "1"), ("two", "1")])
    assert sanitize(tmp_path, schema).totals["certified"] == 2
    (tmp_path / "raw" / "a.csv").unlink()
    assert sanitize(tmp_path, schema).totals["certified"] == 2
    sanitize(tmp_path, schema, clean="scratch")
    step, scratch = bytes_of(tmp_path / "clean"), bytes_of(tmp_path / "scratch")
    assert {name: step[name] for name in scratch} == scratch


def test_a_training_record_that_is_in_the_evaluation_split_is_set_aside_on_the_training_side(
    tmp_path: Path,
) -> None:
    (tmp_path / "raw").mkdir()
    schema = (
        SPLIT.replace("  id:", "  key:")
        .replace("key: id", "key: key")
        .replace("  key: {", "  key: {column: id, ")
    )
    tokenized = schema.replace("table: {}", "table: {text: text, max_tokens: 64}")
    root = Path(__file__).resolve().parent.parent
    tokenized += f"tokenizer: {{path: {root / 'data_samples/tokenizers/tiny-llama3'}}}\n"
    write_csv(tmp_path / "raw" / "a.csv", [("same text", "1")] * 30)
    summary = sanitize(tmp_path, tokenized)
    train, held_out = (rows_of(tmp_path / "clean", f"notes.{name}") for name in ("train", "eval"))
    assert not train
    assert held_out
    assert summary.totals["reasons"] == {"train_eval_overlap": 30 - len(held_out)}


def test_a_changed_page_image_is_noticed_although_the_record_file_is_the_same(
    tmp_path: Path, samples: Path
) -> None:
    from PIL import Image

    (tmp_path / "raw").mkdir()
    page = {"id": "p", "image": "p.png", "width": 40, "height": 20, "words": ["a"], "bboxes": [[1, 1, 9, 9]]}
    (tmp_path / "raw" / "a.jsonl").write_text(json.dumps(page))
    Image.new("RGB", (40, 20), "white").save(tmp_path / "raw" / "p.png")
    schema = f"""\
version: 1
name: pages
kind: layout
files: ["*.jsonl"]
ignore: ["*.png"]
layout:
  words: words
  boxes: {{column: bboxes, order: xyxy, unit: pixel}}
  page: {{width: width, height: height}}
  image: {{column: image}}
tokenizer: {{path: {samples / "tokenizers/tiny-layoutlmv3"}}}
model: {{family: layoutlmv3}}
"""
    first = sanitize(tmp_path, schema)
    assert sanitize(tmp_path, schema).outcome.unchanged
    Image.new("RGB", (40, 20), "black").save(tmp_path / "raw" / "p.png")
    second = sanitize(tmp_path, schema)
    assert second.outcome.statement.root != first.outcome.statement.root
    assert {value for row in rows_of(tmp_path / "clean", "pages.pages") for value in row["pixels"]} == {0}


CHATS = """\
version: 1
name: chats
kind: chat
files: ["*.csv", "*.jsonl"]
chat:
  source: {format: messages}
  max_tokens: 64
quarantine: {max_rate: 1.0}
"""


def test_a_cell_or_a_field_that_says_null_is_no_conversation_and_is_not_lost(
    tmp_path: Path, samples: Path
) -> None:
    (tmp_path / "raw").mkdir()
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    with (tmp_path / "raw" / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["messages"], [json.dumps(turns)], ["null"], [" null "]])
    lines = [{"messages": turns}, {"messages": None}, {}]
    (tmp_path / "raw" / "b.jsonl").write_text("\n".join(map(json.dumps, lines)))
    totals = sanitize(tmp_path, CHATS + f"tokenizer: {{path: {samples / 'tokenizers/tiny-llama3'}}}\n").totals
    assert (totals["rows_read"], totals["certified"], totals["quarantined"]) == (6, 2, 4)
    assert totals["reasons"] == {"conversation_empty": 4}


def test_every_number_of_workers_gives_the_same_root(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for name in "dcba":
        write_csv(tmp_path / "raw" / f"{name}.csv", [(f"{name}{i}", "1") for i in range(5)])
    roots = {sanitize(tmp_path, clean=f"c{n}", workers=n).outcome.statement.root for n in (1, 3)}
    assert len(roots) == 1


@pytest.mark.slow
def test_ten_times_the_rows_need_the_same_memory(tmp_path: Path) -> None:
    """Peak memory of a process of its own, over 64 MiB ranges of a CSV."""
    import subprocess
    import sys

    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.test_run import sanitize, SCHEMA\n"
        "sanitize(Path(sys.argv[1]), SCHEMA)\n"
        "print(int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]) // 1024)"
    )
    peaks = []
    for rows in (400_000, 4_000_000):
        folder = tmp_path / str(rows)
        (folder / "raw").mkdir(parents=True)
        with (folder / "raw" / "a.csv").open("w") as file:
            file.write("id,text,age\n")
            file.writelines(f"{i},text {i},7\n" for i in range(rows))
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] * 1.5
