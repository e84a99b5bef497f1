"""The accounts of a partition: whole, portable, and keyed by all that decides its bytes."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from pipeline.certificate.receipt import Receipt, memo_key, total
from tests import runs


def test_json_and_pickle_give_the_same_receipt_again(tmp_path: Path) -> None:
    receipt = runs.receipt(tmp_path, "ü/a.csv", 20)
    value = json.loads(json.dumps(receipt.to_json()))
    assert Receipt.from_json(value, receipt.files()) == receipt
    assert pickle.loads(pickle.dumps(receipt)) == receipt  # noqa: S301


def test_a_receipt_whose_shard_is_not_listed_is_refused(tmp_path: Path) -> None:
    receipt = runs.receipt(tmp_path, "a.csv", 20)
    files = receipt.files()
    files.popitem()
    with pytest.raises(KeyError):
        Receipt.from_json(receipt.to_json(), files)


@pytest.mark.parametrize(
    "facts", [{"rows_read": 23}, {"certified": 19}, {"dropped": {}}, {"quarantined": 0, "rows_read": 21}]
)
def test_accounts_that_do_not_add_up_are_said_in_words(tmp_path: Path, facts: dict[str, Any]) -> None:
    receipt = runs.receipt(tmp_path, "a.csv", 20)
    assert receipt.imbalance() == ""
    assert dataclasses.replace(receipt, **facts).imbalance() != ""


def test_the_memo_key_changes_with_everything_that_decides_bytes() -> None:
    facts: dict[str, Any] = {
        "source": "a.csv",
        "sha256": "00",
        "contract": "c",
        "tokenizer": None,
        "semantics": 1,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"source": "b.csv"},
        {"sha256": "01"},
        {"contract": "d"},
        {"tokenizer": {"digest": "t"}},
        {"semantics": 2},
        {"rate": 0.1},
    ]
    assert len({memo_key(**facts | change) for change in changes}) == len(changes)
    assert memo_key(**facts) == memo_key(**dict(reversed(facts.items())))


def test_totals_are_sorted_by_name() -> None:
    assert list(total([{"b": 1}, {"a": 2, "b": 3}]).items()) == [("a", 2), ("b", 4)]
