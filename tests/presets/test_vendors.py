"""Each preset on a small document of its vendor's shape: words, boxes and labels as a reader of the page has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.presets.conftest import Run

WORDS = ["Total", "42"]
BOXES = [[100, 100, 300, 200], [500, 100, 600, 200]]
"""Thousandths of a page of 400 × 200 pixels."""


def write(folder: Path, name: str, content: Any) -> None:
    path = folder / "raw" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Image.Image):
        content.save(path)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def page() -> Image.Image:
    return Image.new("RGB", (400, 200), "white")


def corners(x0: float, y0: float, x1: float, y1: float) -> list[dict[str, float]]:
    """Vertices clockwise from the top left, zeros left out."""
    points = ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
    return [{name: value for name, value in zip("xy", point, strict=True) if value} for point in points]


def test_funsd(tmp_path: Path, run_preset: Run) -> None:
    form = [
        {
            "label": "question",
            "text": "Total",
            "box": [0, 0, 9, 9],
            "id": 0,
            "linking": [],
            "words": [{"text": "", "box": [10, 10, 20, 20]}, {"text": "Total", "box": [40, 20, 120, 40]}],
        },
        {
            "label": "other",
            "text": "42",
            "box": [0, 0, 9, 9],
            "id": 1,
            "linking": [],
            "words": [{"text": "42", "box": [200, 20, 240, 40]}],
        },
    ]
    write(tmp_path, "annotations/a.json", {"form": form})
    write(tmp_path, "images/a.png", page().convert("L"))
    result = run_preset("funsd", ["annotations/*.json"])
    assert result.records() == [{"words": WORDS, "bboxes": BOXES, "labels": ["B-QUESTION", "O"]}]
    assert result.samples[0]["notes"] == ["word_empty", "image_converted"]
    assert result.samples[0]["page_id"] == result.pages[0]["page_id"]


def test_funsd_without_its_image(tmp_path: Path, run_preset: Run) -> None:
    form = [{"label": "other", "words": [{"text": "42", "box": [200, 20, 240, 40]}]}]
    write(tmp_path, "annotations/a.json", {"form": form})
    write(tmp_path, "annotations/b.json", {"form": form})
    write(tmp_path, "images/b.png", page())
    result = run_preset("funsd", ["annotations/*.json"])
    assert result.reasons() == {"image_missing": 1}
    assert len(result.samples) == 1


def test_xfund(tmp_path: Path, run_preset: Run) -> None:
    entity = {
        "label": "answer",
        "words": [
            {"text": t, "box": b} for t, b in zip(WORDS, [[40, 20, 120, 40], [200, 20, 240, 40]], strict=True)
        ],
    }
    documents = [
        {"id": "de_0", "document": [entity], "img": {"fname": "de_0.jpg", "width": 400, "height": 200}}
    ] * 2
    write(tmp_path, "de.train.json", {"lang": "de", "documents": documents})
    result = run_preset("xfund", ["*.json"])
    assert result.records() == [{"words": WORDS, "bboxes": BOXES, "labels": ["B-ANSWER", "I-ANSWER"]}] * 2
    assert [row["row"] for row in result.samples] == [1, 2]


def test_sroie(tmp_path: Path, run_preset: Run) -> None:
    write(tmp_path, "a.txt", '40,20,120,20,120,40,40,40,Total, net\r\n200,20,240,20,240,40,200,40,"42\r\n')
    write(tmp_path, "a.jpg", page())
    result = run_preset("sroie", ["*.txt"])
    assert result.records() == [{"words": ["Total, net", '"42'], "bboxes": BOXES}]


def test_cord(tmp_path: Path, run_preset: Run) -> None:
    quad = {"x1": 40, "y1": 20, "x2": 120, "y2": 20, "x3": 120, "y3": 40, "x4": 40, "y4": 40}
    other = {"x1": 200, "y1": 20, "x2": 240, "y2": 20, "x3": 240, "y3": 40, "x4": 200, "y4": 40}
    lines = [
        {
            "category": "total.total_price",
            "words": [{"quad": quad, "text": "Total"}, {"quad": other, "text": "42"}],
        }
    ]
    meta = {"image_size": {"width": 400, "height": 200}}
    write(tmp_path, "json/a.json", {"valid_line": lines, "meta": meta})
    write(tmp_path, "image/a.png", page())
    result = run_preset("cord", ["json/*.json"])
    assert result.records() == [
        {"words": WORDS, "bboxes": BOXES, "labels": ["B-total.total_price", "I-total.total_price"]}
    ]


def test_coco(tmp_path: Path, run_preset: Run) -> None:
    found = [
        {"id": 7, "image_id": 2, "category_id": 1, "bbox": [200.0, 20, 40, 20], "utf8_string": "42"},
        {"id": 8, "image_id": 1, "category_id": 2, "bbox": [40, 20, 80, 20], "utf8_string": "Total"},
        {"id": 9, "image_id": 1, "category_id": 1, "bbox": [200, 20, 40, 20], "utf8_string": "42"},
    ]
    images = [{"id": i, "file_name": f"{i}.png", "width": 400, "height": 200} for i in (1, 2, 3)]
    categories = [{"id": 1, "name": "number"}, {"id": 2, "name": "text"}]
    write(tmp_path, "a.json", {"images": images, "annotations": found, "categories": categories})
    names = {"labels": {"names": ["text", "number"]}}
    result = run_preset("coco", ["*.json"], layout=names)
    assert result.records() == [
        {"words": WORDS, "bboxes": BOXES, "labels": ["text", "number"]},
        {"words": WORDS[1:], "bboxes": BOXES[1:], "labels": ["number"]},
    ]
    assert result.reasons() == {"doc_empty": 1}


def test_label_studio(tmp_path: Path, run_preset: Run) -> None:
    size = {"original_width": 400, "original_height": 200, "image_rotation": 0}
    where = {"x": 10.0, "y": 10, "width": 20, "height": 10, "rotation": 0}
    other = {"x": 60.0, "y": 10, "width": 5, "height": 20, "rotation": 90}
    result = [
        {"id": "a", "type": "rectangle", "value": where, **size},
        {"id": "a", "type": "labels", "value": {**where, "labels": ["KEY"]}, **size},
        {"id": "a", "type": "textarea", "value": {**where, "text": ["Total"]}, **size},
        {"from_id": "a", "to_id": "b", "type": "relation"},
        {"id": "b", "type": "rectanglelabels", "value": {**other, "rectanglelabels": ["VALUE"]}, **size},
        {"id": "b", "type": "textarea", "value": {**other, "text": "42"}, **size},
    ]
    task = {"id": 1, "data": {"image": "a.png"}, "annotations": [{"id": 5, "result": result}]}
    write(tmp_path, "export.json", [task])
    names = {"labels": {"names": ["KEY", "VALUE"]}, "image": {"column": "image"}}
    write(tmp_path, "a.png", page())
    found = run_preset("label_studio", ["*.json"], layout=names)
    # A quarter turn clockwise about (60 %, 10 %): 40 pixels to the left of x, 20 down from y.
    assert found.records() == [
        {"words": WORDS, "bboxes": [BOXES[0], [500, 100, 600, 200]], "labels": ["KEY", "VALUE"]}
    ]


def test_textract(tmp_path: Path, run_preset: Run) -> None:
    def word(text: str, left: float, width: float, page: int) -> dict[str, Any]:
        box = {"Left": left, "Top": 0.1, "Width": width, "Height": 0.1}
        return {"BlockType": "WORD", "Text": text, "Page": page, "Geometry": {"BoundingBox": box}}

    blocks = [
        {"BlockType": "PAGE", "Page": 1},
        {"BlockType": "LINE", "Text": "Total 42", "Page": 1},
        word("Total", 0.1, 0.2, 1),
        word("42", 0.5, 0.1, 1),
        word("42", 0.5, 0.1, 2),
    ]
    write(tmp_path, "a.json", {"Blocks": blocks})
    result = run_preset("textract", ["*.json"])
    assert result.records() == [{"words": WORDS, "bboxes": BOXES}, {"words": WORDS[1:], "bboxes": BOXES[1:]}]


def test_document_ai(tmp_path: Path, run_preset: Run) -> None:
    def token(start: int, end: int, box: tuple[float, float, float, float]) -> dict[str, Any]:
        segment = {"startIndex": str(start), "endIndex": str(end)} if start else {"endIndex": str(end)}
        poly = {"normalizedVertices": corners(*box)}
        return {"layout": {"textAnchor": {"textSegments": [segment]}, "boundingPoly": poly}}

    tokens = [token(0, 6, (0.1, 0.1, 0.3, 0.2)), token(6, 9, (0.5, 0.1, 0.6, 0.2))]
    write(tmp_path, "a.json", {"text": "Total 42\n", "pages": [{"tokens": tokens}, {"pageNumber": 2}]})
    result = run_preset("document_ai", ["*.json"])
    assert result.records() == [{"words": WORDS, "bboxes": BOXES}]
    assert result.reasons()["doc_empty"] == 1
    assert result.samples[0]["notes"] == ["word_trimmed"]


def test_document_ai_with_an_anchor_past_the_text(tmp_path: Path, run_preset: Run) -> None:
    layout = {
        "textAnchor": {"textSegments": [{"endIndex": "99"}]},
        "boundingPoly": {"normalizedVertices": corners(0, 0, 1, 1)},
    }
    good = {**layout, "textAnchor": {"textSegments": [{"endIndex": "5"}]}}
    pages = [{"tokens": [{"layout": one}]} for one in (layout, good)]
    write(tmp_path, "a.json", {"text": "Total", "pages": pages})
    assert run_preset("document_ai", ["*.json"]).reasons() == {"word_not_text": 1}


def test_vision(tmp_path: Path, run_preset: Run) -> None:
    def word(text: str, box: tuple[float, float, float, float]) -> dict[str, Any]:
        return {"symbols": [{"text": letter} for letter in text], "boundingBox": {"vertices": corners(*box)}}

    words = [word("Total", (40, 20, 120, 40)), word("42", (200, 20, 240, 40))]
    pages = [{"width": 400, "height": 200, "blocks": [{"paragraphs": [{"words": words}]}]}]
    write(tmp_path, "a.json", {"responses": [{"fullTextAnnotation": {"pages": pages, "text": "Total 42"}}]})
    assert run_preset("vision", ["*.json"]).records() == [{"words": WORDS, "bboxes": BOXES}]


@pytest.mark.parametrize(("unit", "scale"), [("inch", 0.02), ("pixel", 1)])
def test_azure(unit: str, scale: float, tmp_path: Path, run_preset: Run) -> None:
    def numbers(x0: float, y0: float, x1: float, y1: float) -> list[float]:
        return [round(n * scale, 4) for n in (x0, y0, x1, y0, x1, y1, x0, y1)]

    words = [("Total", numbers(40, 20, 120, 40)), ("42", numbers(200, 20, 240, 40))]
    size = {"width": 400 * scale, "height": 200 * scale, "unit": unit}
    read = {"page": 1, **size, "lines": [{"words": [{"text": t, "boundingBox": b} for t, b in words]}]}
    document = {"pageNumber": 1, **size, "words": [{"content": t, "polygon": b} for t, b in words]}
    write(tmp_path, "read.json", {"status": "succeeded", "analyzeResult": {"readResults": [read]}})
    write(tmp_path, "doc.json", {"analyzeResult": {"pages": [document]}})
    expected = [{"words": WORDS, "bboxes": BOXES}]
    assert run_preset("azure_read", ["read.json"], ignore=["doc.json"]).records() == expected
    assert run_preset("azure_document", ["doc.json"], ignore=["read.json"]).records() == expected


def test_doctr(tmp_path: Path, run_preset: Run) -> None:
    words = [
        {"value": "Total", "geometry": [[0.1, 0.1], [0.3, 0.2]]},
        {"value": "42", "geometry": [[0.5, 0.1], [0.6, 0.2]]},
    ]
    page_ = {"dimensions": [200, 400], "blocks": [{"lines": [{"words": words[:1]}, {"words": words[1:]}]}]}
    write(tmp_path, "a.json", {"pages": [page_]})
    assert run_preset("doctr", ["*.json"]).records() == [{"words": WORDS, "bboxes": BOXES}]


def test_paddleocr(tmp_path: Path, run_preset: Run) -> None:
    def region(text: str, x0: int, x1: int) -> dict[str, Any]:
        return {"transcription": text, "points": [[x0, 20], [x1, 20], [x1, 40], [x0, 40]], "difficult": False}

    regions = json.dumps([region("Total", 40, 120), region("42", 200, 240)])
    write(tmp_path, "set/Label.txt", f"set/a.png\t{regions}\nset/none.png\t{regions}\n")
    write(tmp_path, "set/a.png", page())
    result = run_preset("paddleocr", ["*/Label.txt"])
    assert result.records() == [{"words": WORDS, "bboxes": BOXES}]
    assert result.reasons() == {"image_missing": 1}


def test_tesseract_tsv(tmp_path: Path, run_preset: Run) -> None:
    rows = [
        "level page_num block_num par_num line_num word_num left top width height conf text",
        "1 1 0 0 0 0 0 0 400 200 -1 ",
        "2 1 1 0 0 0 40 20 200 20 -1 ",
        "5 1 1 1 1 1 40 20 80 20 96.5 Total",
        "5 1 1 1 1 2 200 20 40 20 91 42",
        "1 2 0 0 0 0 0 0 400 200 -1 ",
        '5 2 1 1 1 1 200 20 40 20 91 "',
    ]
    write(tmp_path, "a.tsv", "\n".join(row.replace(" ", "\t") for row in rows) + "\n")
    assert run_preset("tesseract_tsv", ["*.tsv"]).records() == [
        {"words": WORDS, "bboxes": BOXES},
        {"words": ['"'], "bboxes": BOXES[1:]},
    ]


def test_hocr(tmp_path: Path, run_preset: Run) -> None:
    write(
        tmp_path,
        "a.hocr",
        """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml"><head><title></title><meta charset="utf-8"></head><body>
<div class='ocr_page' id='page_1' title='image "a.png"; bbox 0 0 400 200; ppageno 0'>
 <span class='ocr_line' title="bbox 40 20 240 40">
 <span class='ocrx_word' title='bbox 40 20 120 40; x_wconf 96'><strong>Total</strong></span>
 <span class='ocrx_word' title='bbox 200 20 240 40; x_wconf 91'>42</span></span>
</div></body></html>""",
    )
    assert run_preset("hocr", ["*.hocr"]).records() == [{"words": WORDS, "bboxes": BOXES}]


def test_alto(tmp_path: Path, run_preset: Run) -> None:
    write(
        tmp_path,
        "a.xml",
        """<?xml version="1.0"?><alto xmlns="http://www.loc.gov/standards/alto/ns-v4#"><Layout>
<Page WIDTH="400" HEIGHT="200" PHYSICAL_IMG_NR="1"><PrintSpace><TextBlock><TextLine>
<String CONTENT="Total" HPOS="40" VPOS="20" WIDTH="80" HEIGHT="20" WC="0.9"/><SP WIDTH="80" HPOS="120" VPOS="20"/>
<String CONTENT="42" HPOS="200" VPOS="20" WIDTH="40" HEIGHT="20"/></TextLine></TextBlock></PrintSpace></Page>
</Layout></alto>""",
    )
    assert run_preset("alto", ["*.xml"]).records() == [{"words": WORDS, "bboxes": BOXES}]
