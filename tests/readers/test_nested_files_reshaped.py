"""Files that are reshaped: every record with its row, faults with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.batch import Findings
from pipeline.findings import FileFault
from pipeline.plan import inspect_file
from pipeline.readers.discover import discover
from pipeline.reasons import Reason
from pipeline.schema.fields import fields_of
from pipeline.schema.model import Schema, schema_from_json
from pipeline.worker import read_partition

PAGES = {"do": "each", "list": "$.pages"}


def schema(**given: Any) -> Schema:
    return schema_from_json(
        json.dumps(
            {
                "version": 1,
                "name": "t",
                "kind": "table",
                "files": ["*"],
                "columns": {"a": {"column": "$.a"}},
                "table": {},
                "read": {"reshape": [PAGES], **given},
            }
        )
    )


def records(
    tmp_path: Path, name: str, content: str | bytes, **given: Any
) -> tuple[list[tuple[int, Any]], Findings, dict[str, int]]:
    """(row, JSON value as read), findings, dropped rows."""
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    of = schema(**given)
    (claim,) = discover(tmp_path, [of]).claims
    inspection = inspect_file(claim, of, fields_of(of))
    found, whole = Findings(), []
    dropped: dict[str, int] = {}
    for partition in inspection.partitions:
        reading = read_partition(partition, claim.path, of, fields_of(of))
        for batch, findings in reading:
            assert batch.raw is not None
            whole += [
                (int(r), raw.decode()) for r, raw in zip(batch.rows, batch.raw.to_pylist(), strict=True)
            ]
            found.extend(findings)
        dropped = dict(reading.dropped)
    return whole, found, dropped


def test_records_of_a_document_are_numbered_and_hold_what_is_read(tmp_path: Path) -> None:
    text = json.dumps({"pages": [{"a": 1.10, "b": 2}, {"a": "\ud83d\ude00"}]})
    whole, _, _ = records(tmp_path, "x.json", b"\xef\xbb\xbf" + text.encode())
    assert whole == [(1, '{"a":1.1}'), (2, '{"a":"\\ud83d\\ude00"}')]


def test_lines_make_one_record_each(tmp_path: Path) -> None:
    lines = ['{"pages": [{"a": 1}]}', "", "{broken", '{"pages": [{"a": 1}, {"a": 2}]}']
    whole, found, dropped = records(tmp_path, "x.jsonl", "\n".join(lines) + "\n")
    assert whole == [(1, '{"a":1}'), (3, "{broken"), (4, lines[3])]
    assert [(item.reason, item.ids.tolist()) for item in found.items] == [(Reason.LINE_FORMAT, [2])]
    assert dropped == {"blank": 1}


def test_declared_lines_without_their_header(tmp_path: Path) -> None:
    form = {"separator": ",", "fields": ["a", "b"], "rest": True}
    each = {"do": "each", "list": "$.rows"}
    whole, _, _ = records(
        tmp_path, "x.csv", "a,b\n1,2,3\n4\n", format="lines", line_format=form, reshape=[each]
    )
    assert whole == [(1, '{"a":"1"}'), (2, '{"a":"4"}')]


@pytest.mark.parametrize(
    ("name", "content", "given", "reason", "found"),
    [
        ("x.json", '{"pages": [\n{"a": }]}', {}, Reason.JSON_ARRAY_INVALID, "line 2, column 7"),
        ("x.json", '{"pages": [], "pages": []}', {}, Reason.JSON_ARRAY_INVALID, "twice"),
        ("x.json", '{"pages": [NaN]}', {}, Reason.JSON_ARRAY_INVALID, "NaN"),
        ("x.json", "[" * 100_000, {}, Reason.JSON_ARRAY_INVALID, "deep"),
        ("x.json", b'{"pages": "\xff"}', {}, Reason.FILE_ENCODING, ""),
        ("x.json", "x" * 2**20 + "x", {"limits": {"record_mb": 1}}, Reason.FILE_LIMIT, "2 MB"),
        ("x.xml", "<a>", {"format": "markup"}, Reason.FILE_UNREADABLE, "<a>"),
        ("x.xlsx", "", {}, Reason.FILE_UNREADABLE, "excel"),
    ],
)
def test_faults_of_a_document(
    name: str, content: str | bytes, given: dict[str, Any], reason: Reason, found: str, tmp_path: Path
) -> None:
    with pytest.raises(FileFault) as caught:
        records(tmp_path, name, content, **given)
    assert caught.value.note.reason is reason
    assert found in caught.value.note.found


def test_a_document_without_records_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"pages": []}')
    of = schema()
    (claim,) = discover(tmp_path, [of]).claims
    inspection = inspect_file(claim, of, fields_of(of))
    assert inspection.partitions == ()
    assert [note.reason for note in inspection.notes] == [Reason.FILE_EMPTY]
