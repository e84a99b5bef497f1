"""The runner end to end: invented cases that pass, the same with a wrong expectation, and the shared cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import run_cases
from tests.acceptance.invented import CASES as INVENTED

pytestmark = pytest.mark.slow

PAGE = {
    "id": "p-1", "width": 200, "height": 400, "words": ["Rechnung", "Nr."],
    "bboxes": [[20, 40, 100, 60], [120, 40, 180, 60]], "labels": ["B-KEY", "I-KEY"],
}  # fmt: skip
LAYOUT = {
    "modality": "layout", "bbox": {"order": "xyxy", "unit": "px", "origin": "top-left"},
    "label_list": ["O", "B-KEY", "I-KEY"], "page_size_fields": ["width", "height"],
}  # fmt: skip
CHAT = {
    "modality": "chat", "roles": ["system", "user", "assistant"], "system": "at most one, first",
    "alternation": "user/assistant, user first", "last_role": "assistant", "content": "non-blank str",
}  # fmt: skip
TALK = [
    {"id": "c-1", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
    {"id": "c-2", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]},
]
TABLE = {"modality": "table", "columns": {"id": "str", "text": "non-blank str"}}
ROWS = "id,text\na1,NA\na2,\na3,x,y\n"

SAME = ["content hash equal in two runs", "equal with 1 and 2 workers"]

CASES: list[tuple[str, str, dict[str, Any], Any, Any, Any]] = [
    (
        "lay-1",
        "repair",
        LAYOUT,
        [PAGE],
        {"bboxes": [[100, 100, 500, 150], [600, 100, 900, 150]], "labels": {"p-1": [1, 2]}},
        {"bboxes": [[20, 40, 100, 60], [120, 40, 180, 60]]},
    ),
    (
        "chat-1",
        "mixed",
        CHAT,
        TALK,
        {"rows": {"c-1": "accept", "c-2": "quarantine"}, "messages": {"c-1": TALK[0]["messages"]}},
        {"rows": {"c-1": "quarantine", "c-2": "quarantine"}},
    ),
    (
        "read-1",
        "mixed",
        TABLE,
        ROWS,
        {"rows": {"a1": "accept", "a2": "quarantine", "a3": "quarantine"}, "lines": {"a3": 4}},
        {"texts": {"a1": None}, "rows": {"a2": "accept"}},
    ),
    ("ops-1", "error", TABLE, "id,text\na1,\n", {"certified": 0, "quarantined": 1}, {"certified": 1}),
    ("ops-2", "invariant", TABLE, "id,text\na1,x\n", {"invariants": SAME}, {"total": 2}),
]


def _write(root: Path, value_at: int) -> None:
    for case in CASES:
        name, expect, assumed, content = case[:4]
        folder = root / name
        folder.mkdir(parents=True)
        file = "input.csv" if isinstance(content, str) else "input.jsonl"
        text = (
            content if isinstance(content, str) else "".join(json.dumps(record) + "\n" for record in content)
        )
        (folder / file).write_text(text, encoding="utf-8")
        expected = {
            "id": name,
            "expect": expect,
            "value": case[value_at],
            "schema_assumed": assumed,
            "files": [file],
        }
        (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")


def test_right_expectations_pass_and_wrong_ones_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path / "right", 4)
    _write(tmp_path / "wrong", 5)
    assert run_cases.main([str(tmp_path / "right"), "--json", str(tmp_path / "right.json")]) == 0, (
        capsys.readouterr().out
    )
    assert run_cases.main([str(tmp_path / "wrong"), "--json", str(tmp_path / "wrong.json")]) == 1
    assert {row["status"] for row in json.loads((tmp_path / "right.json").read_text())} == {"pass"}
    assert {row["status"] for row in json.loads((tmp_path / "wrong.json").read_text())} == {"fail"}


def test_what_cannot_be_translated_is_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x-1").mkdir()
    expected = {"id": "x-1", "expect": "accept", "schema_assumed": {"modality": "video"}, "files": []}
    (tmp_path / "x-1/expected.json").write_text(json.dumps(expected))
    assert run_cases.main([str(tmp_path)]) == 1
    assert "untranslated" in capsys.readouterr().out
    assert run_cases.main([str(tmp_path), "--only", "y-"]) == 2


def test_combinations_of_words_invented_here_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for case in INVENTED:
        case.write(tmp_path)
    code = run_cases.main([str(tmp_path)])
    assert code == 0, capsys.readouterr().out


@pytest.mark.shared
def test_the_shared_cases_pass(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_cases.main([str(shared / "cases"), "--jobs", "2"])
    assert code == 0, capsys.readouterr().out
