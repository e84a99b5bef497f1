"""Presets on the real samples: every word is certified, dropped by name, or set aside."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.presets.conftest import Result, Run

pytestmark = pytest.mark.shared


def copied(tmp_path: Path, folder: Path, pattern: str, into: str = "") -> list[Path]:
    """Copy sample files into the raw folder."""
    raw = tmp_path / "raw" / into
    raw.mkdir(parents=True, exist_ok=True)
    files = sorted(folder.glob(pattern))
    assert files, f"no sample {pattern}"
    for file in files:
        shutil.copy(file, raw)
    return files


def certified_words(result: Result) -> int:
    """Words of all certified records."""
    return sum(len(record["words"]) for record in result.records())


@pytest.mark.slow
def test_docbank(tmp_path: Path, shared: Path, run_preset: Run) -> None:
    files = copied(tmp_path, shared / "data/docbank", "*.txt")
    result = run_preset("docbank", ["*.txt"])
    read, pseudo, flat, blank = 0, 0, 0, 0
    lost = Counter({row["source"]: 0 for row in result.quarantine})
    for file in files:
        for line in file.read_text("utf-8").splitlines():
            parts = line.split("\t")
            if file.name in lost:
                lost[file.name] += 1
                continue
            read += 1
            x0, y0, x1, y1 = map(int, parts[1:5])
            if parts[0].startswith("##LT"):
                pseudo += 1
            elif not parts[0].strip():
                blank += 1
            elif x0 == x1 or y0 == y1:
                flat += 1
    assert result.totals["certified"] + result.totals["quarantined"] == len(files) == 100
    # Words without a box of their own and blank ones go by name; so does what the tokenizer makes nothing of.
    assert certified_words(result) == read - pseudo - flat - blank
    windows = {row["window"] for row in result.samples}
    assert max(windows) > 0
    assert all(len(row["input_ids"]) <= 512 for row in result.samples)


def test_wildreceipt(tmp_path: Path, shared: Path, run_preset: Run) -> None:
    folder = shared / "data/wildreceipt"
    copied(tmp_path, folder, "data.txt")
    copied(tmp_path, folder, "*.jpeg", "tests/data/kie_toy_dataset/wildreceipt")
    result = run_preset("wildreceipt", ["data.txt"])
    lines = [json.loads(line) for line in (folder / "data.txt").read_text("utf-8").splitlines()]
    assert result.totals["certified"] == len(lines) == 2
    for record, line in zip(result.records(), lines, strict=True):
        words = [a for a in line["annotations"] if a["text"].strip()]
        assert record["words"] == [a["text"].strip() for a in words]
        assert record["labels"] == [a["label"] for a in words]
        first = words[0]["box"]
        expected = [
            1000 * int(min(first[0::2])) // line["width"],
            1000 * int(min(first[1::2])) // line["height"],
            1000 * int(max(first[0::2])) // line["width"],
            1000 * int(max(first[1::2])) // line["height"],
        ]
        assert record["bboxes"][0] == expected
    assert len(result.pages) == 2


def test_textract(tmp_path: Path, shared: Path, run_preset: Run) -> None:
    files = copied(tmp_path, shared / "data/ocr-textract", "*.json")
    result = run_preset("textract", ["*.json"])
    words = [
        block["Text"]
        for file in files
        for block in json.loads(file.read_text("utf-8"))["Blocks"]
        if block["BlockType"] == "WORD"
    ]
    assert not result.quarantine
    assert [word for record in result.records() for word in record["words"]] == words


def test_document_ai(tmp_path: Path, shared: Path, run_preset: Run) -> None:
    files = copied(tmp_path, shared / "data/ocr-documentai", "*.json")
    result = run_preset("document_ai", ["*.json"])
    expected: list[str] = []
    for file in files:
        document: dict[str, Any] = json.loads(file.read_text("utf-8"))
        for page in document["pages"]:
            for token in page.get("tokens", []):
                (segment,) = token["layout"]["textAnchor"]["textSegments"]
                start, end = int(segment.get("startIndex", 0)), int(segment["endIndex"])
                expected.append(document["text"][start:end].strip())
    assert [word for record in result.records() for word in record["words"]] == expected
    assert result.reasons()["doc_empty"] == 1  # the blank document
    assert result.totals["quarantined"] == 1


def test_doctr(tmp_path: Path, shared: Path, run_preset: Run) -> None:
    (file,) = copied(tmp_path, shared / "data/docile-sample/ocr", "*.json")
    result = run_preset("doctr", ["*.json"])
    (page,) = json.loads(file.read_text("utf-8"))["pages"]
    words = [word["value"] for block in page["blocks"] for line in block["lines"] for word in line["words"]]
    assert [record["words"] for record in result.records()] == [words]


def test_publaynet(tmp_path: Path, shared: Path, run_preset: Run) -> None:
    (file,) = copied(tmp_path, shared / "data/publaynet", "samples.json")
    data = json.loads(file.read_text("utf-8"))
    names = [category["name"] for category in data["categories"]]
    layout = {"words": "$.annotations[].category.name", "labels": {"names": names}}
    result = run_preset("coco", ["samples.json"], layout=layout)
    assert result.totals["certified"] + result.totals["quarantined"] == len(data["images"]) == 20
    empty = sum(not any(a["image_id"] == i["id"] for a in data["annotations"]) for i in data["images"])
    assert result.totals["quarantined"] == result.reasons()["doc_empty"] == empty
    assert certified_words(result) == len(data["annotations"]) == 193
