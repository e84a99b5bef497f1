"""The token budget is counted once a shard, and kept counts are never trusted when they are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.certificate.cache import CacheFile
from pipeline.certificate.folder import read_certificate
from pipeline.report import token_budget
from pipeline.report.events import Options, SilentWatch
from pipeline.run import run

SCHEMA = """\
version: 1
name: answers
kind: chat
files: ["*.jsonl"]
chat:
  source: {{format: columns, prompt: question, answer: answer}}
  max_tokens: 256{packing}
tokenizer: {{path: {tokenizer}}}
"""


def chats(place: Path, samples: Path, packing: str = "") -> Path:
    """An output folder with the chats of three files."""
    (place / "raw").mkdir()
    for number in range(3):
        rows = [
            {"question": f"What is {number}?", "answer": f"It is {row}. " * (row + 1)} for row in range(9)
        ]
        (place / "raw" / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    schema = place / "answers.yaml"
    schema.write_text(SCHEMA.format(tokenizer=samples / "tokenizers" / "tiny-llama3", packing=packing))
    run(Options(place / "raw", place / "clean", (schema,), fsync=False), SilentWatch())
    return place / "clean"


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Path:
    return chats(tmp_path_factory.mktemp("chats"), samples)


def counted(clean: Path) -> dict[str, Any]:
    """The budgets, nothing kept before."""
    CacheFile(clean, token_budget.SUFFIX).remove()
    return token_budget.budgets(clean, read_certificate(clean))


def test_counts_are_those_of_the_certificate(clean: Path) -> None:
    (found,) = counted(clean).values()
    (facts,) = read_certificate(clean).datasets.values()
    assert found.samples == facts["rows"] == sum(found.lengths.values())
    assert found.tokens == facts["statistics"]["input_ids[]"]["count"]
    assert 0 < found.supervised < found.tokens


def test_a_shard_is_read_once(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = counted(clean)
    monkeypatch.setattr(token_budget, "_samples", lambda path: pytest.fail(f"{path} was read again"))
    assert token_budget.budgets(clean, read_certificate(clean)) == before


def test_only_the_new_shard_is_read(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = counted(clean)
    notes = CacheFile(clean, token_budget.SUFFIX)
    kept = notes.read()
    kept.popitem()
    notes.write(kept)
    read: list[Path] = []
    samples = token_budget._samples
    monkeypatch.setattr(token_budget, "_samples", lambda path: read.append(path) or samples(path))  # type: ignore[func-returns-value]
    assert token_budget.budgets(clean, read_certificate(clean)) == before
    assert len(read) == 1


def test_packed_samples_count_the_room_they_have(tmp_path: Path, samples: Path) -> None:
    clean = chats(tmp_path, samples, "\n  packing: {capacity: 256}")
    (first,) = counted(clean).values()
    (again,) = token_budget.budgets(clean, read_certificate(clean)).values()
    assert first == again
    assert first.capacity == 256 * first.samples > 0


@pytest.mark.parametrize("value", [None, [], {"x": 1}, {"x": [1, 2]}, {"x": [1, 2, 3, 4, [["a", "b"]]]}])
def test_kept_counts_of_another_form_are_counted_again(clean: Path, value: object) -> None:
    before = counted(clean)
    CacheFile(clean, token_budget.SUFFIX).write(value)
    assert token_budget.budgets(clean, read_certificate(clean)) == before


def test_damaged_or_cut_counts_are_counted_again(clean: Path) -> None:
    before = counted(clean)
    path = CacheFile(clean, token_budget.SUFFIX).path
    content = path.read_bytes()
    for damaged in (content[:-1], content[:-3] + bytes([content[-3] ^ 1]) + content[-2:], b""):
        path.write_bytes(damaged)
        assert token_budget.budgets(clean, read_certificate(clean)) == before
