"""Real documents as word boxes in shares of their page, from the folder of shared real data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RealPage:
    """One page: ``boxes`` float64 [words, 4], xyxy shares of the page in the file's own order, without boxes that
    have no area; ``aspect`` is height over width."""

    name: str
    boxes: Float64s
    aspect: float


def real_pages(data: Path) -> Iterator[RealPage]:
    """Every page with boxes under the shared data folder."""
    readers = (_docbank, _wildreceipt, _textract, _document_ai, _doctr, _publaynet)
    for read in readers:
        for page in read(data):
            boxes = page.boxes
            area = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
            if area.any():
                yield RealPage(page.name, np.clip(boxes[area], 0, 1), page.aspect)


def _docbank(data: Path) -> Iterator[RealPage]:
    for file in sorted((data / "docbank").glob("*.txt")):
        rows = [line.split("\t")[:5] for line in file.read_text("utf-8").splitlines()]
        words = [row for row in rows if len(row) == 5 and row[0].strip() and not row[0].startswith("##LT")]
        yield RealPage(file.name, np.array([row[1:] for row in words], float) / 1000, 11 / 8.5)


def _wildreceipt(data: Path) -> Iterator[RealPage]:
    for line in (data / "wildreceipt/data.txt").read_text("utf-8").splitlines():
        page = json.loads(line)
        quads = np.array([word["box"] for word in page["annotations"]]).reshape(-1, 4, 2)
        size = np.array([page["width"], page["height"]])
        yield RealPage(page["file_name"], _envelope(quads / size), page["height"] / page["width"])


def _textract(data: Path) -> Iterator[RealPage]:
    for file in sorted((data / "ocr-textract").glob("*.json")):
        words = [b for b in _read(file)["Blocks"] if b["BlockType"] == "WORD"]
        polygons = np.array([[[p["X"], p["Y"]] for p in w["Geometry"]["Polygon"]] for w in words])
        yield RealPage(file.name, _envelope(polygons), 11 / 8.5)


def _document_ai(data: Path) -> Iterator[RealPage]:
    for file in sorted((data / "ocr-documentai").glob("*.json")):
        for page in _read(file).get("pages", []):
            tokens = page.get("tokens", [])
            polygons = [t["layout"]["boundingPoly"]["normalizedVertices"] for t in tokens]
            if polygons:
                corners = np.array([[[v.get("x", 0), v.get("y", 0)] for v in p] for p in polygons])
                size = page["dimension"]
                yield RealPage(file.name, _envelope(corners), size["height"] / size["width"])


def _doctr(data: Path) -> Iterator[RealPage]:
    for file in sorted((data / "docile-sample/ocr").glob("*.json")):
        for page in _read(file)["pages"]:
            lines = [line for block in page["blocks"] for line in block["lines"]]
            corners = np.array([word["geometry"] for line in lines for word in line["words"]])
            yield RealPage(file.name, corners.reshape(-1, 4), page["dimensions"][0] / page["dimensions"][1])


def _publaynet(data: Path) -> Iterator[RealPage]:
    file = _read(data / "publaynet/samples.json")
    for image in file["images"]:
        own = [a["bbox"] for a in file["annotations"] if a["image_id"] == image["id"]]
        if own:
            x, y, width, height = np.array(own).T
            size = np.array([image["width"], image["height"]] * 2)
            boxes = np.stack([x, y, x + width, y + height], axis=1) / size
            yield RealPage(image["file_name"], boxes, image["height"] / image["width"])


def _envelope(polygons: Float64s) -> Float64s:
    return np.concatenate([polygons.min(axis=1), polygons.max(axis=1)], axis=1)


def _read(file: Path) -> Any:
    return json.loads(file.read_text("utf-8"))
