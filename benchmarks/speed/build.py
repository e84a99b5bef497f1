"""Certified folders of real lengths: DocBank pages with drawn images, MTS-Dialog conversations, plain and packed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parents[2]
LABELS = (
    "abstract",
    "author",
    "caption",
    "date",
    "equation",
    "figure",
    "footer",
    "list",
    "paragraph",
    "reference",
    "section",
    "table",
    "title",
)
PAGES = """
version: 1
name: pages
kind: layout
files: ["pages/*.jsonl"]
ignore: ["pages/images/*"]
layout:
  words: words
  boxes: {{column: boxes, order: xyxy, unit: norm1000}}
  labels: {{column: labels, names: [{labels}], scheme: none}}
  image: {{column: image}}
  geometry: "off"
tokenizer: {{path: "{tokenizer}"}}
model: {{family: layoutlmv3}}
policies: {{bbox_zero_area: repair}}
"""
DIALOGUES = """
version: 1
name: {name}
kind: chat
files: ["dialogues/*.csv"]
chat:
  source: {{format: columns, prompt: dialogue, answer: section_text, system: "Summarize the dialogue as a note."}}
  max_tokens: 1024
{packing}
tokenizer: {{path: "{tokenizer}"}}
"""


def build(place: Path, data: Path, tokenizers: Path) -> dict[str, Any]:
    """Make raw/ and clean/ below ``place``; returns rows and tokens of each data set."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "raw/pages/images").mkdir(parents=True)
    (place / "raw/dialogues").mkdir()
    (place / "schemas").mkdir()
    lines = [_page(file, place / "raw/pages") for file in sorted((data / "docbank").glob("*.txt"))]
    (place / "raw/pages/docbank.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shutil.copy(data / "mts-dialog/MTS-Dialog-TrainingSet.csv", place / "raw/dialogues/training.csv")
    layout, llama = (tokenizers / "layoutlmv3-base").resolve(), (tokenizers / "llama3").resolve()
    (place / "schemas/pages.yaml").write_text(PAGES.format(labels=", ".join(LABELS), tokenizer=layout))
    for name, packing in (("dialogues", ""), ("packed", "  packing: {capacity: 1024}")):
        text = DIALOGUES.format(name=name, packing=packing, tokenizer=llama)
        (place / f"schemas/{name}.yaml").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pipeline",
        "run",
        str(place / "raw"),
        str(place / "clean"),
        "--schemas",
        str(place / "schemas"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    from pipeline.train.load import open_certified

    facts = {name: open_certified(place / "clean", name) for name in ("pages", "dialogues", "packed")}
    return {
        name: {
            "rows": known.rows,
            "tokens": known.number("input_ids", "total"),
            "longest": known.number("input_ids", "longest"),
            "lengths": dict(known.lengths),
        }
        for name, known in facts.items()
    }


def _page(file: Path, folder: Path) -> dict[str, Any]:
    """One DocBank page, its boxes 0–1000, with an image drawn from them."""
    words, boxes, labels = [], [], []
    for line in file.read_text("utf-8").splitlines():
        token, x0, y0, x1, y1, *_, label = line.split("\t")
        box = [int(x0), int(y0), int(x1), int(y1)]
        if token.startswith("##LT") or not token.strip() or box[0] >= box[2] or box[1] >= box[3]:
            continue
        words.append(token)
        boxes.append(box)
        labels.append(label.strip())
    image = Image.new("RGB", (600, 776), "white")
    draw = ImageDraw.Draw(image)
    for x0, y0, x1, y1 in boxes:
        draw.rectangle([x0 * 0.6, y0 * 0.776, x1 * 0.6, y1 * 0.776], fill=(90, 90, 90))
    name = f"images/{file.stem}.png"
    image.save(folder / name)
    return {"words": words, "boxes": boxes, "labels": labels, "image": name}
