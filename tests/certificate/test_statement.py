"""A certificate's bytes: stable, whole, and free of what differs between two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.certificate.statement import Statement, make_statement, parse
from tests import runs

GOLDEN = Path(__file__).parent / "golden_certificate.json"


def statement(tmp_path: Path) -> Statement:
    receipts = [runs.receipt(tmp_path, "b.csv", 3, 1), runs.receipt(tmp_path, "a.csv", 10)]
    from pipeline.shards.writer import empty_shard

    empty = {"demo.eval": empty_shard(tmp_path, runs.SCHEMA, fsync=False)}
    return make_statement(runs.inputs(), receipts, empty)


def test_the_bytes_are_those_of_the_golden_file(tmp_path: Path) -> None:
    """Whoever changes them on purpose raises ``SEMANTICS`` or the predicate's version and writes the file anew
    (shard digests in it change with the Arrow library too)."""
    made = json.loads(statement(tmp_path).to_bytes())
    assert made == json.loads(GOLDEN.read_text())


def test_reading_gives_the_same_statement_again(tmp_path: Path) -> None:
    first = statement(tmp_path)
    second = parse(first.to_bytes())
    assert second == first
    assert second.to_bytes() == first.to_bytes()
    assert second.recomputed_root() == second.root
    assert [receipt.source for receipt in second.receipts()] == ["a.csv", "b.csv"]


def test_there_is_one_subject_the_root(tmp_path: Path) -> None:
    made = statement(tmp_path)
    value = json.loads(made.to_bytes())
    assert value["_type"] == "https://in-toto.io/Statement/v1"
    assert value["subject"] == [{"name": "clean", "digest": {"sha256": made.root}}]


def test_shards_come_in_the_order_of_sources_never_of_completion(tmp_path: Path) -> None:
    receipts = [runs.receipt(tmp_path, f"{name}.csv", 4) for name in "dacb"]
    empty = {"demo.eval": receipts[0].parts["demo.train"][0]}
    orders = [receipts, receipts[::-1], sorted(receipts, key=lambda r: r.source)]
    assert len({make_statement(runs.inputs(), order, empty).to_bytes() for order in orders}) == 1
    parts = make_statement(runs.inputs(), receipts, empty).datasets["demo.train"]["parts"]
    expected = [p.name for r in sorted(receipts, key=lambda r: r.source) for p in r.parts["demo.train"]]
    assert parts == expected


def test_no_cell_text_is_in_it(tmp_path: Path) -> None:
    from pipeline.certificate.receipt import statistics_of_parts
    from pipeline.shards.writer import ShardWriter

    writer = ShardWriter(tmp_path, runs.SCHEMA, fsync=False)
    writer.write(runs.table("secret-text", 3))
    facts = json.dumps(statistics_of_parts(writer.close()))
    assert "secret" not in facts
    assert '"sample_id"' in facts


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"_type": "https://in-toto.io/Statement/v1", "predicateType": "other", "subject": [], "predicate": {}}',
        b'{"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:cleanroom-pipeline:certificate:v1", '
        b'"subject": [], "predicate": {}}',
        b"\xff\xfe",
        b"[" * 200_000,
    ],
)
def test_what_is_no_certificate_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(ValueError):
        parse(content)
