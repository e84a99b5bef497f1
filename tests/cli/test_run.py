"""``run``: what it publishes, and one clear message with the right exit code for each bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import Exit
from tests.cli.conftest import Call


def test_good_rows_are_certified_and_bad_rows_set_aside(
    call: Call, raw: Path, schema: Path, tmp_path: Path
) -> None:
    clean = tmp_path / "clean"
    said = call("run", raw, clean, "--schema", schema)
    assert said.code == Exit.OK
    totals = json.loads((clean / "certificate.json").read_bytes())["predicate"]["totals"]
    assert (totals["rows_read"], totals["certified"], totals["quarantined"]) == (3, 2, 1)
    assert totals["reasons"] == {"text_blank": 1}
    assert "text_blank" in said.out


def test_a_second_run_changes_no_file(call: Call, raw: Path, schema: Path, tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    call("run", raw, clean, "--schema", schema)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in clean.rglob("*") if p.is_file()}
    assert "unchanged" in call("run", raw, clean, "--schema", schema).out
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in clean.rglob("*") if p.is_file()} == before


def test_two_runs_give_the_same_bytes_with_any_number_of_workers(
    call: Call, raw: Path, schema: Path, tmp_path: Path
) -> None:
    (raw / "b.jsonl").write_text('{"id": "x", "text": "one"}\n{"id": "y"}\n')
    call("run", raw, tmp_path / "one", "--schema", schema)
    call("run", raw, tmp_path / "two", "--schema", schema, "--workers", "2")
    files = [
        {p.relative_to(c).as_posix(): p.read_bytes() for p in c.rglob("*") if p.is_file()}
        for c in (tmp_path / "one", tmp_path / "two")
    ]
    assert files[0] == files[1]


def test_the_json_log_is_one_object_a_line_and_ends_with_run_end(
    call: Call, raw: Path, schema: Path, tmp_path: Path
) -> None:
    said = call("run", raw, tmp_path / "clean", "--schema", schema, "--log-format", "json")
    events = [json.loads(line) for line in said.err.splitlines()]
    assert events[-1]["event"] == "run.end"
    assert events[-1]["certified"] == 2
    assert "good" not in said.err  # no cell text


def test_a_missing_raw_folder(call: Call, schema: Path, tmp_path: Path) -> None:
    said = call("run", tmp_path / "none", tmp_path / "clean", "--schema", schema)
    assert said.code == Exit.INPUT
    assert "the raw folder is not there" in said.err
    assert not (tmp_path / "clean").exists()


def test_an_empty_raw_folder(call: Call, schema: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    said = call("run", tmp_path / "raw", tmp_path / "clean", "--schema", schema)
    assert said.code == Exit.INPUT
    assert "holds no file to read" in said.err
    assert not (tmp_path / "clean").exists()


def test_a_schema_with_a_wrong_key(call: Call, raw: Path, schema: Path, tmp_path: Path) -> None:
    schema.write_text(schema.read_text().replace("allowed", "alowed"))
    said = call("run", raw, tmp_path / "clean", "--schema", schema)
    assert said.code == Exit.USAGE
    assert "did you mean `allowed`?" in said.err
    assert not (tmp_path / "clean").exists()


def test_a_tokenizer_folder_that_is_not_there(call: Call, raw: Path, schema: Path, tmp_path: Path) -> None:
    text = schema.read_text().replace("table: {}", "table: {text: text}")
    schema.write_text(text + "tokenizer: {path: nowhere}\n")
    said = call("run", raw, tmp_path / "clean", "--schema", schema)
    assert said.code == Exit.USAGE
    assert "nowhere" in said.err
    assert "to do:" in said.err
    assert not (tmp_path / "clean").exists()


def test_an_unreadable_file_costs_itself_and_the_exit_code(
    call: Call, raw: Path, schema: Path, tmp_path: Path
) -> None:
    (raw / "bad.csv").write_bytes(b"id,text,label\n1,caf\xe9,pos\n")
    said = call("run", raw, tmp_path / "clean", "--schema", schema)
    assert said.code == Exit.INPUT
    assert "bad.csv" in said.out
    totals = json.loads((tmp_path / "clean/certificate.json").read_bytes())["predicate"]["totals"]
    assert totals["certified"] == 2


def test_over_the_budget_nothing_is_published(call: Call, raw: Path, schema: Path, tmp_path: Path) -> None:
    said = call("run", raw, tmp_path / "clean", "--schema", schema, "--max-quarantine", "0.1")
    assert said.code == Exit.GATE
    assert "1 of 3 records quarantined" in said.err
    assert not (tmp_path / "clean/certificate.json").exists()


def test_a_file_that_no_schema_claims_is_named(call: Call, raw: Path, schema: Path, tmp_path: Path) -> None:
    (raw / "other.txt").write_text("hello")
    said = call("run", raw, tmp_path / "clean", "--schema", schema)
    assert said.code == Exit.OK
    assert "other.txt" in said.out


@pytest.mark.parametrize("inside", ["raw/clean", "."])
def test_the_output_may_not_lie_inside_the_input_or_around_it(
    call: Call, raw: Path, schema: Path, inside: str
) -> None:
    said = call("run", raw, raw.parent / inside, "--schema", schema)
    assert said.code == Exit.USAGE
    assert "inside each other" in said.err


def test_quarantine_show_tells_place_reason_and_what_to_do(
    call: Call, raw: Path, schema: Path, tmp_path: Path
) -> None:
    call("run", raw, tmp_path / "clean", "--schema", schema)
    said = call("quarantine", "show", tmp_path / "clean", "--reason", "text_blank", "--cells")
    assert said.code == Exit.OK
    assert "a.csv, row 3" in said.out
    assert "text_blank text" in said.out
    assert "to do:" in said.out
    assert call("quarantine", "show", tmp_path / "clean", "--reason", "no_such").code == Exit.USAGE


def test_the_report_and_the_metrics_repeat_with_the_result(
    call: Call, raw: Path, schema: Path, tmp_path: Path
) -> None:
    texts = []
    for number in "12":
        report, metrics = tmp_path / f"{number}.html", tmp_path / f"{number}.json"
        call(
            "run",
            raw,
            tmp_path / f"clean{number}",
            "--schema",
            schema,
            "--report",
            report,
            "--metrics",
            metrics,
            "--plots",
            tmp_path / f"plots{number}",
        )
        texts.append(
            (report.read_text(), metrics.read_text(), (tmp_path / f"plots{number}/reasons.csv").read_text())
        )
    assert texts[0] == texts[1]
    assert json.loads(texts[0][1])["quarantine_rate"] == pytest.approx(1 / 3, abs=1e-6)
    assert texts[0][2] == "reason,policy,records\ntext_blank,quarantine,1\n"
    assert "good" not in texts[0][0].split("</style>")[1].replace('class="good"', "")  # no cell text


def test_a_single_file_that_cannot_be_decoded_is_the_error_with_its_place(
    call: Call, schema: Path, tmp_path: Path
) -> None:
    raw = tmp_path / "only"
    raw.mkdir()
    (raw / "a.csv").write_bytes(b"id,text\nx,plain\ny,it\x92s\n")
    said = call("run", raw, tmp_path / "clean", "--schema", schema)
    assert said.code == Exit.INPUT
    assert "a.csv" in said.err and "line 3" in said.err
    assert not (tmp_path / "clean").exists()
