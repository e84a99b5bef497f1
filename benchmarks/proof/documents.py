"""Documents: clean pages with images, and every way to spoil one."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.proof.hazard import Hazard, Record, changing, setting

LABELS = ("O", "B-HEADER", "I-HEADER", "B-KEY", "I-KEY", "B-VALUE", "I-VALUE")
WIDTH, HEIGHT = 850, 1100
WORDS = (
    "Invoice",
    "Date",
    "Total",
    "Amount",
    "Due",
    "Ship",
    "To",
    "Name",
    "Address",
    "Street",
    "City",
    "Number",
    "Tax",
    "Quantity",
    "Price",
    "Unit",
    "Discount",
    "Signature",
    "Phone",
    "Order",
    "Customer",
    "Account",
    "Balance",
    "Paid",
)
PATTERN = ("O", "B-HEADER", "I-HEADER", "B-KEY", "I-KEY", "O", "B-VALUE", "I-VALUE", "O")


def page(number: int, raw: Path, *, ids: bool) -> Record:
    """A clean page of 20 to 120 words on a grid, with its image."""
    rng = random.Random(number)
    count = rng.randint(20, 120)
    words = [f"{rng.choice(WORDS)}{rng.randint(0, 99) if rng.random() < 0.3 else ''}" for _ in range(count)]
    boxes = []
    for k in range(count):
        x, y = 40 + (k % 8) * 98, 50 + (k // 8) * 62
        boxes.append([x, y, x + rng.randint(30, 90), y + rng.randint(12, 40)])
    tags = [PATTERN[k % len(PATTERN)] for k in range(count)]
    name = f"images/{number}.png"
    save_image(raw / name, number)
    labels: list[Any] = [LABELS.index(tag) for tag in tags] if ids else list(tags)
    return {
        "id": f"page-{number}",
        "words": words,
        "bboxes": boxes,
        "labels": labels,
        "width": WIDTH,
        "height": HEIGHT,
        "image": name,
    }


def save_image(path: Path, seed: int) -> None:
    """A small picture with the page's aspect."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        noise = np.random.default_rng(seed).integers(0, 256, (11, 9, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((WIDTH // 5, HEIGHT // 5), Image.Resampling.NEAREST).save(path)


def hazards(raw: Path) -> list[Hazard]:
    """Every document hazard; bad images are written below ``raw``."""
    box, ids = _boxes(), _labels()
    return [*box, *_words(), *ids, *_images(raw)]


def _boxes() -> list[Hazard]:
    def first(change: Callable[[list[float]], Any]) -> Callable[[Record], Record]:
        return changing("bboxes", lambda boxes: [boxes[0], change(boxes[1]), *boxes[2:]])

    def every(change: Callable[[list[float]], Any]) -> Callable[[Record], Record]:
        return changing("bboxes", lambda boxes: [change(box) for box in boxes])

    def of(name: str, reason: str, spoil: Callable[[Record], Record], outcome: str = "quarantine") -> Hazard:
        return Hazard(name, reason, "forms", spoil, outcome)

    return [
        of("box past the page", "bbox_out_of_page", first(lambda b: [b[0], b[1], 3 * WIDTH, b[3]])),
        of("negative coordinate", "bbox_out_of_page", first(lambda b: [-40, b[1], b[2], b[3]])),
        of(
            "coordinate 1001–1023 after scaling", "bbox_out_of_page", first(lambda b: [b[0], b[1], 865, b[3]])
        ),
        of(
            "one pixel past the page",
            "bbox_clipped",
            first(lambda b: [b[0], b[1], WIDTH + 1, b[3]]),
            "repair",
        ),
        of("null coordinate", "bbox_not_finite", first(lambda b: [b[0], None, b[2], b[3]])),
        of("box inverted", "bbox_inverted", first(lambda b: [b[2], b[1], b[0], b[3]])),
        of("box without area", "bbox_zero_area", first(lambda b: [b[0], b[1], b[0], b[3]])),
        of("box [0,0,0,0]", "bbox_zero_area", first(lambda b: [0, 0, 0, 0])),
        of("three numbers in a box", "bbox_arity", first(lambda b: b[:3])),
        of("box as text", "bbox_unparsed", changing("bboxes", lambda boxes: "[1 2 3 4]")),
        of(
            "ratios under a pixel unit",
            "bbox_unit_suspect",
            every(lambda b: [b[0] / WIDTH, b[1] / HEIGHT, b[2] / WIDTH, b[3] / HEIGHT]),
        ),
        of("page width 0", "page_size_invalid", setting(width=0)),
        of("page height missing", "page_size_invalid", setting(height=None)),
    ]


def _words() -> list[Hazard]:
    def of(name: str, reason: str, spoil: Callable[[Record], Record], outcome: str = "quarantine") -> Hazard:
        return Hazard(name, reason, "forms", spoil, outcome)

    def many(record: Record) -> Record:
        return {
            **record,
            "words": record["words"] * 14,
            "bboxes": record["bboxes"] * 14,
            "labels": record["labels"] * 14,
        }

    return [
        of("fewer boxes than words", "words_boxes_mismatch", changing("bboxes", lambda boxes: boxes[:-1])),
        of("fewer labels than words", "words_labels_mismatch", changing("labels", lambda labels: labels[1:])),
        of("blank word", "word_empty", changing("words", lambda words: ["  ", *words[1:]]), "repair"),
        of("word is null", "word_not_text", changing("words", lambda words: [words[0], None, *words[2:]])),
        of(
            "control token as a word",
            "word_control_token",
            changing("words", lambda w: [w[0], "</s>", *w[2:]]),
            "repair",
        ),
        of("page without words", "doc_empty", setting(words=[], bboxes=[], labels=[])),
        of("more tokens than positions", "sequence_too_long", many, "repair"),
    ]


def _labels() -> list[Hazard]:
    def put(value: Any) -> Callable[[Record], Record]:
        return changing("labels", lambda labels: [labels[0], value, *labels[2:]])

    return [
        Hazard("unknown label name", "label_unknown", "forms", put("B-TOTAL")),
        Hazard("I- without B-", "label_scheme_invalid", "forms", put("I-VALUE"), "flag"),
        Hazard("label id = number of labels", "label_out_of_range", "forms_ids", put(len(LABELS))),
        Hazard("label id -1", "label_out_of_range", "forms_ids", put(-1)),
        Hazard("label 1.5", "label_not_integer", "forms_ids", put(1.5)),
        Hazard(
            "every label -100",
            "label_all_ignored",
            "forms_ids",
            changing("labels", lambda labels: [-100] * len(labels)),
        ),
    ]


def _images(raw: Path) -> list[Hazard]:
    def of(name: str, reason: str, file: str, outcome: str = "quarantine") -> Hazard:
        return Hazard(name, reason, "forms", setting(image=f"images/{file}"), outcome)

    folder = raw / "images"
    whole = Image.fromarray(np.random.default_rng(1).integers(0, 256, (220, 170, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    whole.save(buffer, "JPEG")
    (folder / "cut.jpg").write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    (folder / "text.png").write_text("this is no image")
    (folder / "huge.png").write_bytes(_huge_png(40_000, 40_000))
    Image.fromarray((np.arange(220 * 170, dtype=np.uint32).reshape(220, 170) % 60000).astype(np.uint16)).save(
        folder / "grey16.png"
    )
    whole.rotate(90, expand=True).save(folder / "sideways.png")
    return [
        of("image missing", "image_missing", "nowhere.png"),
        of("image outside the folder", "image_path_escape", "../../../etc/hostname"),
        of("JPEG cut off", "image_truncated", "cut.jpg"),
        of("no image at all", "image_undecodable", "text.png"),
        of("decompression bomb", "image_too_large", "huge.png"),
        of("16-bit grey", "image_converted", "grey16.png", "repair"),
        of("page turned sideways", "image_size_mismatch", "sideways.png"),
    ]


def _huge_png(width: int, height: int) -> bytes:
    """The head of a PNG of that many pixels, with next to no data."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 64))
        + chunk(b"IEND", b"")
    )
