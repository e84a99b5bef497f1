"""The quarantine keeps every bad record, whatever it holds."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batch import Batch, Findings
from pipeline.reasons import Policy, Reason
from pipeline.shards.quarantine import HITS, QuarantineWriter
from pipeline.shards.schemas import quarantine


def batch_of(count: int, **parts: Any) -> Batch:
    facts = {"source": "a.csv", "sheet": None, "frame": pl.DataFrame()} | parts
    return Batch(ids=np.arange(count) + 5, rows=np.arange(count) + 2, **facts)


def written(tmp_path: Path, batch: Batch, findings: Findings) -> list[dict[str, Any]]:
    writer = QuarantineWriter(tmp_path, fsync=False)
    writer.write(batch, findings)
    (part,) = writer.close()
    assert writer.rows == part.rows == len(batch)
    with pa.OSFile(str(tmp_path / part.name)) as file:
        table = pa.ipc.open_stream(file).read_all()
    table.validate(full=True)
    assert table.column_names == quarantine().names
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def found(batch: Batch, reason: Reason = Reason.TEXT_BLANK, policy: Policy = Policy.QUARANTINE) -> Findings:
    findings = Findings()
    findings.add(reason, policy, "text", batch.ids)
    return findings


def test_a_record_carries_all_its_reasons_and_no_repair(tmp_path: Path) -> None:
    batch = batch_of(2, cells=pl.DataFrame({"text": ["", None], "n": ["1", "x"]}))
    findings = found(batch)
    findings.add(Reason.VALUE_AS_SHOWN, Policy.REPAIR, "text", batch.ids)
    findings.add(
        Reason.VALUE_TYPE,
        Policy.QUARANTINE,
        "n",
        batch.ids[1:],
        paths=["$"],
        found=["text"],
        expected="integer",
    )
    first, second = written(tmp_path, batch, findings)
    assert [hit["reason"] for hit in first["reasons"]] == ["text_blank"]
    assert [(h["reason"], h["column"], h["path"], h["found"], h["expected"]) for h in second["reasons"]] == [
        ("text_blank", "text", "", "", ""),
        ("value_type", "n", "$", "text", "integer"),
    ]
    assert (first["source"], first["sheet"], first["row"], second["row"]) == ("a.csv", None, 2, 3)
    assert json.loads(second["cells"]) == {"text": None, "n": "x"}


def test_bytes_are_kept_as_they_stand(tmp_path: Path) -> None:
    lines = [b'{"a": "\\ud83d"}', b"\xff\xfe\x00broken", b'{"a": 12345678901234567890123}']
    batch = batch_of(3, raw=pa.array(lines, pa.binary()))
    rows = written(tmp_path, batch, found(batch))
    assert [row["raw"] for row in rows] == lines
    assert [row["cells"] for row in rows] == [None] * 3


@given(text=st.text(st.characters(), max_size=40))
def test_text_that_arrow_cannot_hold_is_escaped_and_can_be_recovered(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    batch = batch_of(1, source=f"{text}.csv", sheet=text, cells=pl.DataFrame({"a": ["b"]}))
    findings = Findings()
    findings.add(Reason.TEXT_INVALID_UNICODE, Policy.QUARANTINE, text, batch.ids, found=[text], expected=text)
    (row,) = written(tmp_path_factory.mktemp("q"), batch, findings)
    expected = "".join(f"\\u{ord(c):04x}" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
    hit = row["reasons"][0]
    assert row["sheet"] == hit["column"] == expected
    assert hit["found"] == hit["expected"] == expected


def test_values_of_any_type_are_stored(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "when": [datetime.datetime(2024, 1, 31, 9, 30)],
            "price": [decimal.Decimal("1.10")],
            "size": [float("nan")],
            "bytes": [b"\xff\x00"],
            "list": [[[1.5, float("inf")], []]],
            "struct": [{"a": 2**63 - 1, "b": None}],
            "flag": [True],
        }
    )
    batch = batch_of(1, columns=frame)
    (row,) = written(tmp_path, batch, found(batch))
    assert json.loads(row["cells"]) == {
        "when": "2024-01-31 09:30:00",
        "price": "1.10",
        "size": "nan",
        "bytes": "\\xff\0",
        "list": [[1.5, "inf"], []],
        "struct": {"a": 2**63 - 1, "b": None},
        "flag": True,
    }


def test_a_record_with_thousands_of_hits_is_listed_within_bounds(tmp_path: Path) -> None:
    batch = batch_of(1, cells=pl.DataFrame({"a": ["b"]}))
    findings = Findings()
    ids = np.repeat(batch.ids, 4000)
    findings.add(
        Reason.BBOX_INVERTED, Policy.QUARANTINE, "boxes", ids, paths=[f"$[{i}]" for i in range(4000)]
    )
    findings.add(Reason.TEXT_BLANK, Policy.QUARANTINE, "text", batch.ids, found="x" * 10_000)
    (row,) = written(tmp_path, batch, findings)
    hits = row["reasons"]
    assert {hit["reason"] for hit in hits} == {"bbox_inverted", "text_blank"}
    assert len(hits) == HITS + 2
    assert sum(hit["found"] == f"{4000 - HITS} more places" for hit in hits) == 1
    assert max(len(hit["found"]) for hit in hits) <= 200


def test_a_record_without_a_reason_is_refused(tmp_path: Path) -> None:
    batch = batch_of(2, cells=pl.DataFrame({"a": ["b", "c"]}))
    findings = Findings()
    findings.add(Reason.TEXT_BLANK, Policy.QUARANTINE, "a", batch.ids[:1])
    with pytest.raises(ValueError, match="1 records set aside without a reason"):
        QuarantineWriter(tmp_path, fsync=False).write(batch, findings)


def test_a_batch_of_none_writes_nothing(tmp_path: Path) -> None:
    writer = QuarantineWriter(tmp_path / "q", fsync=False)
    writer.write(batch_of(0), Findings())
    assert writer.close() == ()
    assert not (tmp_path / "q").exists()
