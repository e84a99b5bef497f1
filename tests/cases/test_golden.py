"""The golden cases, and that a wrong expectation of them, or another sample, is seen."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import outcome

NAMES = sorted(folder.name for folder in outcome.CASES.iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", NAMES)
def test_the_outcome_is_the_expected_one_and_no_other(name: str, tmp_path: Path) -> None:
    expected = outcome.load(outcome.CASES / name)
    found = outcome.outcome_of(outcome.CASES / name, tmp_path / "clean")
    differences = outcome.differences(expected, found)
    assert not differences, "\n".join(differences)
    wrong = list(_wrong(expected))
    assert len(wrong) > 4
    assert [one for one in wrong if not outcome.differences(one, found)] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_case_holds_its_three_parts_alone(name: str) -> None:
    assert {path.name for path in (outcome.CASES / name).iterdir()} == {"raw", "schema.yaml", "expected.json"}


@pytest.mark.parametrize("change", [{"more": 1}, {"why": None}, {"why": " "}])
def test_the_members_of_an_expectation_are_closed(tmp_path: Path, change: dict[str, Any]) -> None:
    content: dict[str, Any] = dict.fromkeys(outcome.MEMBERS, "x") | change
    (tmp_path / "expected.json").write_text(json.dumps({k: v for k, v in content.items() if v is not None}))
    with pytest.raises(ValueError, match=r"members|blank"):
        outcome.load(tmp_path)


@pytest.mark.parametrize("pair", [(1, 1.0), (1, True), ("1", 1), ([1], [1, 1]), ({}, []), (None, 0)])
def test_values_that_only_look_alike_differ(pair: tuple[Any, Any]) -> None:
    assert outcome.differences(*pair)


LAYOUT = {
    "input_ids": [0, 260, 261, 2],
    "attention_mask": [1, 1, 1, 1],
    "word_ids": [-1, 0, 1, -1],
    "bbox": [[0, 0, 0, 0], [1, 2, 3, 4], [5, 6, 7, 8], [0, 0, 0, 0]],
    "labels": [-100, 0, 1, -100],
    "window": 0,
    "windows": 1,
    "notes": [],
    "page_id": "a",
}
CHAT = {
    "input_ids": [40, 41, 42],
    "attention_mask": [1, 1, 1],
    "labels": [-100, 41, 42],
    "tokens_dropped": 0,
    "turns": [{"role": "user", "start": 0, "end": 1}],
    "notes": [],
    "note_count": 1,
    "position_ids": [0, 1, 2],
    "rejected_input_ids": [40, 43],
    "rejected_labels": [-100, 43],
}


@pytest.mark.parametrize(("row", "tokenizer"), [(LAYOUT, "tiny-layoutlmv3"), (CHAT, "tiny-llama3")])
def test_nothing_that_a_sample_holds_is_left_out(row: dict[str, Any], tokenizer: str, samples: Path) -> None:
    schema = {"layout": {"labels": {"names": ["O", "B-KEY", "I-KEY"]}}, "tokenizer": {"path": "."}}
    reader = outcome.Reader(schema, samples / "tokenizers" / tokenizer)
    reader.images = {"a": ["#000000"]}
    before = reader.sample(row)
    for field, value in row.items():
        for other in _altered(value):
            assert outcome.differences(before, reader.sample({**row, field: other})), (field, other)


def _altered(value: Any) -> Iterator[Any]:
    """The value with each of its leaves in turn replaced by another of its type."""
    if isinstance(value, dict):
        yield from ({**value, key: other} for key in value for other in _altered(value[key]))
    elif isinstance(value, list):
        yield from (
            [*value[:i], other, *value[i + 1 :]] for i in range(len(value)) for other in _altered(value[i])
        )
    elif isinstance(value, str):
        yield value + "x"
    elif value is None:
        yield "x"
    else:
        yield 0 if value == outcome.IGNORE else not value if isinstance(value, bool) else value + 1


def _wrong(expected: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The expectation with one leaf altered, one member less, or one more, at any depth."""
    yield from _altered(expected)
    for path in _mappings(expected):
        for key in [*_at(expected, path), None]:
            other = copy.deepcopy(expected)
            inner = _at(other, path)
            if key is None:
                inner["one more"] = 0
            else:
                del inner[key]
            yield other


def _mappings(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        yield path
        for key in value:
            yield from _mappings(value[key], (*path, key))


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value[key]
    return value
