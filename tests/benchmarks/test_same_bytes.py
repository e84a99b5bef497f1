"""The comparison of two records explains what it is told to, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

from benchmarks.same_bytes import compare, differences, read_output

RECORD: dict[str, Any] = {
    "exit": 0,
    "root": "a",
    "shards": {"set/data": [["part-1.arrow", 3]]},
    "accounts": {"a.csv | None | 0": {"rows_read": 4, "certified": 3}},
    "dropped": {"a.csv | None | 0": {}},
    "libraries": {"libraries": {"numpy": "1"}},
    "memos": "m",
}


def changed(**values: Any) -> dict[str, Any]:
    """A copy of the record with other values at its top."""
    return copy.deepcopy(RECORD) | values


def test_equal_records_do_not_differ() -> None:
    assert compare(RECORD, changed(), ()) == ([], False)


def test_another_shard_is_found_with_its_place() -> None:
    other = changed(shards={"set/data": [["part-2.arrow", 3]]})
    assert list(differences(RECORD, other)) == [
        ("shards › set/data", [["part-1.arrow", 3]], [["part-2.arrow", 3]])
    ]
    found, _ = compare(RECORD, other, ("libraries", "dropped"))
    assert [place for place, _, _ in found] == ["shards › set/data"]


def test_a_missing_job_differs() -> None:
    assert compare(RECORD, {}, ("libraries", "dropped"))[0]


def test_a_root_alone_is_never_explained() -> None:
    assert compare(RECORD, changed(root="b"), ("libraries", "dropped"))[0] == [("root", "a", "b")]


def test_libraries_explain_the_root_where_nothing_else_differs() -> None:
    other = changed(root="b", libraries={"libraries": {}}, memos="n")
    assert len(compare(RECORD, other, ())[0]) == 3
    assert compare(RECORD, other, ("libraries",)) == ([], True)
    assert compare(RECORD, other, ("dropped",))[0]
    assert compare(RECORD, other | {"exit": 4}, ("libraries",))[0] == [("exit", 0, 4), ("root", "a", "b")]


def test_a_count_of_zero_is_absent_only_where_told() -> None:
    other = changed(root="b", dropped={"a.csv | None | 0": {"blank": 0}})
    assert compare(RECORD, other, ("dropped",)) == ([], True)
    assert compare(RECORD, other, ("libraries",))[0]
    one = changed(root="b", dropped={"a.csv | None | 0": {"blank": 1}})
    assert compare(RECORD, one, ("dropped",))[0]


def test_a_folder_without_certificate_has_no_root(tmp_path: Any) -> None:
    assert read_output(tmp_path) == {"refused": {}}
