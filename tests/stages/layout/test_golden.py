"""Ids, boxes and labels of clean pages are those of transformers' own tokenizers and processors.

Where they differ on purpose: control tokens as words stay text; blank words are dropped before; labels of the tokens
shared by two windows are -100 in the later one; ``int(1000 * (x / width))`` of the processors is off by one where the
float quotient is (``test_processor_boxes_differ_by_float_error_only``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.models.families import FAMILIES
from pipeline.stages.layout.images import read_picture
from tests.stages.layout.documents import encode, schema

pytestmark = [pytest.mark.shared, pytest.mark.filterwarnings("ignore")]

NAMES = ("O", "B-X", "I-X")


def pages(shared: Path, limit: int) -> Iterator[tuple[list[str], list[list[int]]]]:
    """DocBank's pages: words and boxes 0–1000, pseudo-words and boxes without area left out."""
    for file in sorted((shared / "data/docbank").glob("*.txt"))[:limit]:
        words, boxes = [], []
        for line in file.read_text("utf-8").splitlines():
            parts = line.split("\t")
            box = [int(n) for n in parts[1:5]]
            visible = parts[0].strip() and "\ufffd" not in parts[0] and not parts[0].startswith("##LT")
            if visible and box[2] > box[0] and box[3] > box[1]:
                words.append(parts[0].strip())
                boxes.append(box)
        if words:
            yield words, boxes


def reference(kind: str, folder: Path) -> Any:
    """transformers' own tokenizer of a family."""
    from transformers import AutoTokenizer, LayoutLMv2Tokenizer, LayoutLMv3Tokenizer

    if kind == "layoutlmv3":
        return LayoutLMv3Tokenizer.from_pretrained(folder)
    if kind == "layoutlmv2":
        return LayoutLMv2Tokenizer.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [("layoutlmv3", "layoutlmv3-base"), ("layoutlmv2", "bert-base-uncased")]
)
def test_windows_of_real_pages_are_those_of_transformers(kind: str, name: str, shared: Path) -> None:
    folder = shared / "tokenizers" / name
    tokenizer = reference(kind, folder)
    labels = {"column": "labels", "names": NAMES, "scheme": "none"}
    of = schema(
        unit="norm1000",
        page={},
        labels=labels,
        tokenizer=str(folder),
        model={"family": kind},
        geometry="off",
        window={"max_tokens": 512, "stride": 128},
    )
    compared = 0
    for words, boxes in pages(shared, 30):
        given = [len(word) % 3 for word in words]
        page = {"words": words, "boxes": boxes, "labels": [NAMES[i] for i in given]}
        judged = encode([page], of)
        assert judged.good(), judged.slugs()
        assert judged.samples is not None
        kept = judged.column("@word_index")
        expected = tokenizer(
            [words[i] for i in kept],
            boxes=[boxes[i] for i in kept],
            word_labels=[given[i] for i in kept],
            truncation=True,
            max_length=512,
            stride=128,
            return_overflowing_tokens=True,
        )
        ours = judged.samples.table.to_pylist()
        assert [row["input_ids"] for row in ours] == expected["input_ids"]
        assert [row["bbox"] for row in ours] == expected["bbox"]
        for window, row in enumerate(ours):
            shared_tokens = 0 if window == 0 else 128
            theirs = expected["labels"][window]
            assert row["labels"][1 + shared_tokens :] == theirs[1 + shared_tokens :]
            assert set(row["labels"][1 : 1 + shared_tokens]) <= {-100}
            numbers = dict(enumerate(kept))
            word_ids = [-1 if w is None else numbers[w] for w in expected.word_ids(window)]
            assert row["word_ids"] == word_ids
        compared += len(ours)
    assert compared > 60


@pytest.mark.parametrize("family", ["layoutlmv3", "layoutlmv2"])
def test_pixels_are_those_of_the_image_processor(family: str, shared: Path) -> None:
    from transformers.models.layoutlmv2.image_processing_pil_layoutlmv2 import LayoutLMv2ImageProcessorPil
    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil

    spec = FAMILIES[family].image
    assert spec is not None
    if family == "layoutlmv3":
        processor = LayoutLMv3ImageProcessorPil(apply_ocr=False)
    else:
        processor = LayoutLMv2ImageProcessorPil(apply_ocr=False)
    files = [
        *sorted((shared / "data/docbank").glob("*.jpg")),
        *sorted((shared / "data/ocr-textract").glob("*.*g")),
    ][:8]
    assert files
    for file in files:
        stored = np.frombuffer(read_picture(file, 0, 10**9, spec).pixels, np.uint8).reshape(3, 224, 224)
        with Image.open(file) as image:
            theirs = np.asarray(processor(image.convert("RGB"), return_tensors="np")["pixel_values"][0])
        ours = (stored * spec.scale - np.reshape(spec.mean, (3, 1, 1))) / np.reshape(spec.std, (3, 1, 1))
        level = spec.scale / spec.std[0]
        assert np.abs(ours - theirs).max() <= level * 1.001


def test_processor_boxes_differ_by_float_error_only() -> None:
    from fractions import Fraction

    from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import normalize_box

    from tests.stages.layout.documents import judge

    width, height = 1275, 1650
    boxes = [[x, y, x + 25, y + 33] for x in range(0, 1250, 7) for y in (0, 66, 825, 1617)]
    page = {
        "words": ["w"] * len(boxes),
        "boxes": boxes,
        "labels": ["O"] * len(boxes),
        "page_width": width,
        "page_height": height,
    }
    ours = judge([page], schema(geometry="off")).boxes()
    assert ours is not None
    for box, mine in zip(boxes, ours, strict=True):
        for number, side, own, theirs in zip(
            box, (width, height) * 2, mine, normalize_box(box, width, height), strict=True
        ):
            assert own == int(Fraction(1000 * number, side))
            assert theirs == own or (theirs == own - 1 and 1000 * number % side == 0)
