"""Forms for LayoutLMv3: words, pixel boxes (xyxy), BIO labels, page size and page images, in four formats."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from material import pages
from sets.writing import Cell, Fault, Raw, json_text, write_array, write_csv, write_lines, write_workbook

Record = dict[str, Any]
COLUMNS = ("id", "image", "width", "height", "words", "bboxes", "labels")
GREY = 13
"""Number of the one page that was scanned in grey."""


def build(raw: Path) -> list[Fault]:
    """Write the set under ``raw/forms`` and say what was planted."""
    good = {number: _record(raw, number) for number in range(16)}
    faults = _lines(raw, good)
    write_array(raw / "forms/greyford.json", [good[11], good[12], good[GREY]])
    faults.append(Fault("forms/greyford.json", "", 3, "image_converted", "repair"))
    cut = _cells(good[15], id="f-21", words=None)
    write_workbook(
        raw / "forms/ostby.xlsx",
        {"forms": [COLUMNS, _cells(good[14], id="f-19"), _cells(good[15], id="f-20"), cut]},
    )
    faults.append(Fault("forms/ostby.xlsx", "forms", 4, "doc_empty", "quarantine"))
    spaced = _cells(good[3], id="f-23", bboxes="[[60 48 135 70] [142 48 233 70]]")
    write_csv(raw / "forms/neuwerder.csv", [COLUMNS, _cells(good[2], id="f-22"), spaced])
    faults.append(Fault("forms/neuwerder.csv", "", 3, "bbox_unparsed", "quarantine"))
    return faults


def _record(raw: Path, number: int) -> Record:
    """Draw the page, save its image and give its record."""
    page = pages.dense(number) if number == 10 else pages.form(number)
    name = f"images/form-{number:02d}.png"
    path = raw / "forms" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    image = page.image.convert("L") if number == GREY else page.image.quantize(5).convert("RGB")
    image.save(path, optimize=True)
    return {
        "id": f"f-{number + 1:02d}",
        "image": name,
        "width": pages.WIDTH,
        "height": pages.HEIGHT,
        "words": page.words,
        "bboxes": [list(box) for box in page.boxes],
        "labels": page.labels,
    }


def _lines(raw: Path, good: dict[int, Record]) -> list[Fault]:
    """The main file: eleven good pages, and one page a fault."""
    source = "forms/port_elmer.jsonl"
    records: list[Record | Raw] = [good[number] for number in range(11)]
    faults: list[Fault] = [Fault(source, "", 11, "sequence_too_long", "repair")]
    cut = raw / "forms/images/form-cut.jpg"
    buffer = BytesIO()
    pages.form(0).image.convert("L").resize((204, 264)).save(buffer, "JPEG", quality=60)
    cut.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) * 6 // 10])
    for reason, outcome, spoil in _SPOILERS:
        number = len(records)
        record = copy.deepcopy(good[number % 10])
        record["id"] = f"x-{number + 1:02d}"
        spoil(record)
        records.append(record)
        faults.append(Fault(source, "", number + 1, reason, outcome))
    records.append(Raw(json_text(good[4])[:400]))
    faults.append(Fault(source, "", len(records), "json_invalid", "quarantine"))
    write_lines(raw / source, records)
    return faults


def _past_page(record: Record) -> None:
    record["bboxes"][4][2] = pages.WIDTH + 180


def _inverted(record: Record) -> None:
    x0, y0, x1, y1 = record["bboxes"][5]
    record["bboxes"][5] = [x0, y1, x1, y0]


def _flat(record: Record) -> None:
    record["bboxes"][2][3] = record["bboxes"][2][1]


def _null(record: Record) -> None:
    record["bboxes"][3][0] = None


def _not_a_number(record: Record) -> None:
    record["bboxes"][6][1] = float("nan")


def _three_numbers(record: Record) -> None:
    record["bboxes"][1] = record["bboxes"][1][:3]


def _unknown_label(record: Record) -> None:
    record["labels"][-1] = "B-ANSWER"


def _lost_label(record: Record) -> None:
    record["labels"].pop()


def _no_height(record: Record) -> None:
    record["height"] = 0


def _cut_image(record: Record) -> None:
    record["image"] = "images/form-cut.jpg"


def _no_image(record: Record) -> None:
    record["image"] = "images/form-99.png"


def _outside(record: Record) -> None:
    record["image"] = "../../../elsewhere/form-01.png"


def _one_pixel_over(record: Record) -> None:
    record["bboxes"][-1][3] = pages.HEIGHT + 1


def _blank_word(record: Record) -> None:
    record["words"].append(" ")
    record["bboxes"].append([700, 980, 706, 992])
    record["labels"].append("O")


def _control_word(record: Record) -> None:
    record["words"][-1] = "</s>"


_SPOILERS: tuple[tuple[str, str, Callable[[Record], None]], ...] = (
    ("bbox_out_of_page", "quarantine", _past_page),
    ("bbox_inverted", "quarantine", _inverted),
    ("bbox_zero_area", "quarantine", _flat),
    ("bbox_not_finite", "quarantine", _null),
    ("bbox_not_finite", "quarantine", _not_a_number),
    ("bbox_arity", "quarantine", _three_numbers),
    ("label_unknown", "quarantine", _unknown_label),
    ("words_labels_mismatch", "quarantine", _lost_label),
    ("page_size_invalid", "quarantine", _no_height),
    ("image_truncated", "quarantine", _cut_image),
    ("image_missing", "quarantine", _no_image),
    ("image_path_escape", "quarantine", _outside),
    ("bbox_clipped", "repair", _one_pixel_over),
    ("word_empty", "repair", _blank_word),
    ("word_control_token", "repair", _control_word),
)


def _cells(record: Record, **changes: Cell) -> list[Cell]:
    """The record as cells: lists as JSON."""
    cells: dict[str, Cell] = {
        name: json.dumps(record[name]) if isinstance(record[name], list) else record[name] for name in COLUMNS
    }
    cells.update(changes)
    return [cells[name] for name in COLUMNS]
