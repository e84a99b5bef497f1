"""A document's ``schema_assumed`` as a schema: boxes, page size, labels, image, windows, line formats."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.acceptance.case import Case, Untranslated
from tests.acceptance.geometry_fields import (
    HEIGHTS,
    PAGE_BOXES,
    WIDTHS,
    WORDS,
    Found,
    find_fields,
    path_of,
    value_at,
)
from tests.acceptance.peek import Sample, decode

ORDERS = {
    "xyxy": "xyxy", "xywh": "xywh", "polygon8": "quad", "quad": "quad", "polygon": "polygon",
    "vertices": "vertices", "xywh+rotation_deg_cw_about_top_left": "rotated_xywh", "rotated_xywh": "rotated_xywh",
}  # fmt: skip
UNITS = {
    "px": "pixel", "pixel": "pixel", "pixels": "pixel", "pt": "point", "point": "point", "points": "point",
    "in": "inch", "inch": "inch", "inches": "inch", "percent": "percent", "%": "percent", "ratio": "ratio",
    "normalized": "ratio", "norm1000": "norm1000", "0-1000": "norm1000", "norm1": "ratio",
}  # fmt: skip
DATA = (
    ".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".xlsb", ".xlsm", ".ods", ".parquet",
    ".arrow", ".feather",
)  # fmt: skip
SIZELESS = ("ratio", "percent", "norm1000")


def translate_layout(case: Case, sample: Sample) -> dict[str, Any]:
    """The ``layout`` and ``read`` sections."""
    assumed = case.assumed
    if "rest of line" in str(assumed.get("format", "")):
        return _line_format(case)
    box = {"unit": assumed.get("unit", "px"), **(assumed.get("bbox") or {})}
    optional = assumed.get("optional") or ()
    order = _word(ORDERS, box.get("order", "xyxy"), "box order")
    per_row = bool(assumed.get("row_per_word"))
    found = find_fields(sample, order, per_row)
    if not found.words:
        raise Untranslated("no field with words in the data")
    layout: dict[str, Any] = {
        "words": found.words,
        "boxes": _boxes(found, order, box, sample),
        "page": _page(assumed, sample, per_row),
    }
    layout.update(_labels(assumed, found))
    layout.update(_rules(assumed, box))
    if "labels" in layout and (found.labels in optional or "labels" in optional):
        layout["labels"]["required"] = False
    if "image" in assumed or "+image" in case.modality:
        if not found.image:
            raise Untranslated("no field with the image in the data")
        layout["image"] = {"column": found.image, "required": not {found.image, "image"} & set(optional)}
    read: dict[str, Any] = {}
    if per_row:
        key = assumed.get("group_by")
        read["group_by"] = {"key": key} if isinstance(key, str) else {}
    if sample.tabular:
        read["header"] = "find"
    return {"kind": "layout", "layout": layout, "read": read}


def _word(table: dict[str, str], word: Any, what: str) -> str:
    if str(word).lower() not in table:
        raise Untranslated(f"{what} {word!r}")
    return table[str(word).lower()]


def _boxes(found: Found, order: str, box: dict[str, Any], sample: Sample) -> dict[str, Any]:
    boxes: dict[str, Any] = {"order": order, "unit": _unit(str(box.get("unit", "px")), sample)}
    if isinstance(found.boxes, tuple):
        boxes["columns"] = list(found.boxes)
    else:
        boxes["column"] = found.boxes or "bboxes"
    if "origin" in box:
        boxes["origin"] = _word(
            {"top-left": "top_left", "bottom-left": "bottom_left"}, box["origin"], "origin of the boxes"
        )
    return boxes


def _unit(word: str, sample: Sample) -> str | dict[str, Any]:
    """A unit, or the field that says it."""
    if word.lower() in UNITS:
        return UNITS[word.lower()]
    name = word.rsplit(".", 1)[-1]
    path = path_of(sample, (name, "unit", "units"))
    if path is None:
        raise Untranslated(f"unit {word!r}")
    given = {str(value_at(record, path)) for record in sample.records if value_at(record, path) is not None}
    values = {text: UNITS[text.lower()] for text in sorted(given) if text.lower() in UNITS}
    return {"column": path, "values": values or {"pixel": "pixel"}}


def _page(assumed: dict[str, Any], sample: Sample, per_row: bool) -> dict[str, Any]:
    """Width and height by their names, as constants, or a page box."""
    named = assumed.get("page_size_fields", assumed.get("page_box"))
    names = [named] if isinstance(named, str) else list(named or ())
    if len(names) == 4 and all(isinstance(n, (int, float)) for n in names):
        return {"box": [float(number) for number in names]}
    if len(names) == 2 and all(isinstance(n, (int, float)) for n in names):
        return {"width": float(names[0]), "height": float(names[1])}
    if names and len(names) != 2:
        words = tuple(re.split(r"[\s\[(,]", str(names[0]))[:1]) if len(names) == 1 else ()
        if path := path_of(sample, (*words, *PAGE_BOXES)):
            return {"box": path}
        raise Untranslated(f"page size {named!r}")
    wide, high = (str(n) for n in names) if names else ("width", "height")
    width = path_of(sample, (_last(wide), *WIDTHS))
    height = path_of(sample, (_last(high), *HEIGHTS))
    if width and height:
        return {"width": width, "height": height}
    for name in (_last(wide), *PAGE_BOXES, "page_size", "size"):
        if (path := path_of(sample, (name,))) and any(_is_box(value_at(r, path)) for r in sample.records):
            return {"box": path}
    return {}


def _is_box(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(isinstance(v, (int, float)) for v in value)


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _labels(assumed: dict[str, Any], found: Found) -> dict[str, Any]:
    names = [str(name) for name in assumed.get("label_list") or ()]
    words = str(assumed.get("labels", ""))
    ids = found.ids or "int ids" in words
    if match := re.search(r"n\s*=\s*(\d+)", words):
        count = int(match.group(1))
        names = names if len(names) == count else [f"L{i}" for i in range(count)]
    if not names or not found.labels:
        return {}
    scheme = "bio" if any(name.startswith("B-") for name in names) and not ids else "none"
    if any(name.startswith(("E-", "S-")) for name in names) and scheme == "bio":
        scheme = "bioes"
    labels = {"column": found.labels, "names": names, "form": "ids" if ids else "names", "scheme": scheme}
    if ids and (ignored := _ignored(assumed, words)) != -100:
        labels["ignore_id"] = ignored
    return {"labels": labels}


def _ignored(assumed: dict[str, Any], words: str) -> int | None:
    """The id that means "no label": -100 unless the case says another, or that there is none."""
    if re.search(r"no ignore|without ignore|no -100|without -100", words):
        return None
    if isinstance(given := assumed.get("ignore_index", -100), int):
        return given
    return None


def _rules(assumed: dict[str, Any], box: dict[str, Any]) -> dict[str, Any]:
    rules: dict[str, Any] = {}
    if (tolerance := box.get("clip_tolerance_px", assumed.get("clip_tolerance_px"))) is not None:
        rules["clip_tolerance"] = {"pixels": float(tolerance)}
    if patterns := assumed.get("drop_words"):
        rules["drop_words"] = [patterns] if isinstance(patterns, str) else list(patterns)
    if "max_tokens" in assumed:
        rules["window"] = {
            "max_tokens": assumed["max_tokens"],
            "stride": min(128, assumed["max_tokens"] // 4),
        }
    return rules


def _line_format(case: Case) -> dict[str, Any]:
    """``8 ints + rest of line is text``: the numbers of a box, then the text, one word or line a line."""
    words = str(case.assumed["format"])
    match = re.match(r"\s*(\d+)", words)
    count = int(match.group(1)) if match else 8
    order = {4: "xyxy", 8: "quad"}.get(count)
    given = (case.assumed.get("bbox") or {}).get("order")
    if order is None:
        raise Untranslated(f"format {words!r}")
    lines = [
        line
        for name in case.inputs
        for line in decode((case.folder / name).read_bytes()).splitlines()
        if line.strip()
    ]
    separator = separating(lines, count)
    numbers = [f"n{i + 1}" for i in range(count)]
    unit = UNITS[str(case.assumed.get("unit", (case.assumed.get("bbox") or {}).get("unit", "px"))).lower()]
    layout: dict[str, Any] = {
        "words": WORDS[3],
        "boxes": {"columns": numbers, "order": ORDERS[given] if given else order, "unit": unit},
    }
    if unit not in SIZELESS:
        layout["page"] = {
            "width": float(extent(lines, separator, count)),
            "height": float(extent(lines, separator, count)),
        }
    return {
        "kind": "layout",
        "layout": layout,
        "read": {
            "format": "lines",
            "line_format": {"separator": separator, "fields": [*numbers, WORDS[3]], "rest": True},
            "group_by": {},
        },
    }


def separating(lines: list[str], count: int) -> str:
    """The separator behind which most lines have their numbers: a comma may stand in a text only."""
    number = r"\s*-?\d+(?:\.\d+)?\s*"

    def fitting(separator: str) -> int:
        pattern = re.compile((number + re.escape(separator)) * count)
        return sum(pattern.match(line) is not None for line in lines)

    return max(("\t", ",", ";", " "), key=fitting)


def extent(lines: list[str], separator: str, count: int) -> int:
    """Side of a square page that holds all boxes: such files give no page size. 1000 keeps coordinates as they are."""
    largest = 1000
    for line in lines:
        parts = line.split(separator)[:count]
        largest = max([largest, *(int(float(p)) for p in parts if re.fullmatch(r"\s*\d+(\.\d+)?\s*", p))])
    return largest


def files_of(case: Case) -> list[str]:
    """The files that hold records: images are reached through them, and litter is claimed by no pattern."""
    return [
        f for f in case.inputs if Path(f).suffix.lower() in DATA and not Path(f).name.startswith(("~$", "."))
    ]
