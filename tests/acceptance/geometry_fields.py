"""Where a document keeps its words, boxes, labels, page size and image: found in the data by shape and name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.acceptance.peek import Record, Sample, cell

WORDS = (
    "words",
    "tokens",
    "texts",
    "text",
    "ocr_words",
    "word",
    "token",
    "content",
    "value",
    "transcription",
)
BOXES = (
    "bboxes", "boxes", "bbox", "box", "normalized_bboxes", "polygons", "polygon", "quads", "quad", "points",
    "boundingbox", "bounding_box", "bounding_boxes", "boundingpoly", "bounding_poly", "geometry", "vertices",
)  # fmt: skip
LABELS = ("labels", "ner_tags", "tags", "label", "tag", "ner", "bio", "label_ids", "ner_tag", "classes")
IMAGES = ("image", "image_path", "img", "img_path", "file_name", "filename", "image_file", "path", "scan")
WIDTHS = ("width", "page_width", "w", "img_width", "image_width", "original_width", "page_w", "pagewidth")
HEIGHTS = (
    "height",
    "page_height",
    "h",
    "img_height",
    "image_height",
    "original_height",
    "page_h",
    "pageheight",
)
PAGE_BOXES = (
    "page_box",
    "mediabox",
    "media_box",
    "cropbox",
    "crop_box",
    "page_bbox",
    "pagebox",
    "bounds",
    "box",
)
CORNERS = {
    "xyxy": (
        ("x0", "y0", "x1", "y1"), ("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"),
        ("x_min", "y_min", "x_max", "y_max"), ("left", "top", "right", "bottom"), ("l", "t", "r", "b"),
    ),
    "xywh": (("x", "y", "width", "height"), ("x", "y", "w", "h"), ("left", "top", "width", "height"),
             ("l", "t", "w", "h"), ("x0", "y0", "w", "h"), ("x0", "y0", "width", "height")),
    "rotated_xywh": (("x", "y", "width", "height", "rotation"), ("x", "y", "w", "h", "rotation"),
                     ("x", "y", "width", "height", "angle"), ("left", "top", "width", "height", "rotation")),
    "quad": (("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"),
             ("x0", "y0", "x1", "y1", "x2", "y2", "x3", "y3")),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    """Paths in the schema's language; ``ids`` when labels are numbers."""

    words: str | None
    boxes: str | tuple[str, ...] | None
    labels: str | None
    image: str | None
    ids: bool = False


def find_fields(sample: Sample, order: str, per_row: bool) -> Found:
    """Look through the records: parallel lists first, then one list of objects, then a word a row."""
    image = sample.first(IMAGES)
    if per_row:
        return _per_row(sample, order, image)
    words, boxes = sample.first(WORDS), sample.first(BOXES)
    if words and any(_is_list(cell(value), str) for value in sample.values(words)):
        labels = sample.first(LABELS)
        return Found(words, boxes, labels, image, _numeric(sample, labels))
    for path, items in _object_lists(sample):
        found = _inside(path, items, order)
        if found.words and found.boxes:
            return Found(found.words, found.boxes, found.labels, image, found.ids)
    return Found(words, boxes, sample.first(LABELS), image, _numeric(sample, sample.first(LABELS)))


def path_of(sample: Sample, names: tuple[str, ...]) -> str | None:
    """Path of the first of these names that some record has, at the top or within objects (never within lists)."""
    for name in names:
        for record in sample.records:
            for path, _ in _walk(record, name):
                return path
    return None


def value_at(record: Record, path: str) -> Any:
    """The value at a path made by ``path_of``."""
    value: Any = record
    for part in path.removeprefix("$.").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _walk(record: Record, name: str, prefix: str = "$") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if key.lower() == name.lower():
            yield (key if prefix == "$" else f"{prefix}.{key}"), value
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _walk(value, name, f"{prefix}.{key}")


def _per_row(sample: Sample, order: str, image: str | None) -> Found:
    labels = sample.first(LABELS)
    words = sample.first(WORDS)
    if (boxes := sample.first(BOXES)) and boxes != words:
        return Found(words, boxes, labels, image, _numeric(sample, labels))
    return Found(words, _corner_columns(sample.keys(), order), labels, image, _numeric(sample, labels))


def _corner_columns(keys: list[str], order: str) -> tuple[str, ...] | None:
    lowered = {key.lower(): key for key in keys}
    for names in CORNERS.get(order, ()):
        if all(name in lowered for name in names):
            return tuple(lowered[name] for name in names)
    return None


def _object_lists(sample: Sample) -> Iterator[tuple[str, list[Record]]]:
    """Every list of objects: its path with ``[]``, and the objects of all records."""
    paths: dict[str, list[Record]] = {}
    for record in sample.records:
        for path, items in _lists_in(record, "$"):
            paths.setdefault(path, []).extend(items)
    yield from paths.items()


def _lists_in(record: Record, prefix: str) -> Iterator[tuple[str, list[Record]]]:
    for key, raw in record.items():
        value = cell(raw)
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            items = [item for item in value if isinstance(item, dict)]
            yield f"{prefix}.{key}[]", items
            for item in items[:1]:
                yield from _lists_in(item, f"{prefix}.{key}[]")
        elif isinstance(value, dict):
            yield from _lists_in(value, f"{prefix}.{key}")


def _inside(path: str, items: list[Record], order: str) -> Found:
    """Text, box and label within the objects of one list, or within objects in these."""
    leaves = _leaves(items)
    lowered = {name.rsplit(".", 1)[-1].lower(): name for name in reversed(leaves)}
    text = next((lowered[n] for n in WORDS if n in lowered and _all_text(leaves[lowered[n]])), None)
    label = next((lowered[n] for n in LABELS if n in lowered and lowered[n] != text), None)
    ids = label is not None and all(isinstance(value, int) for value in leaves[label])
    box: str | tuple[str, ...] | None = None
    for name in BOXES:
        if name in lowered and (box := _box_path(f"{path}.{lowered[name]}", leaves[lowered[name]], order)):
            break
    for prefix in dict.fromkeys(name.rpartition(".")[0] for name in leaves) if box is None else ():
        below = [n.rpartition(".")[2] for n in leaves if n.rpartition(".")[0] == prefix]
        if columns := _corner_columns(below, order):
            box = tuple(f"{path}.{prefix}.{c}" if prefix else f"{path}.{c}" for c in columns)
            break
    return Found(text and f"{path}.{text}", box, label and f"{path}.{label}", None, ids)


def _leaves(items: list[Record], prefix: str = "", depth: int = 3) -> dict[str, list[Any]]:
    """Values by dotted name, of the objects and of objects within them."""
    found: dict[str, list[Any]] = {}
    for item in items:
        for key, value in item.items():
            if value is not None:
                found.setdefault(f"{prefix}{key}", []).append(value)
    for name, values in list(found.items()):
        objects = [value for value in values if isinstance(value, dict)]
        if objects and depth:
            found.update(_leaves(objects, f"{name}.", depth - 1))
    return found


def _all_text(values: list[Any]) -> bool:
    return any(isinstance(value, str) for value in values) and not any(
        isinstance(v, (list, dict)) for v in values
    )


def _box_path(path: str, values: list[Any], order: str) -> str | tuple[str, ...] | None:
    """A box that is a list, or an object that holds vertices, numbers, or another object with them."""
    if values and isinstance(values[0], list):
        return path
    inner = [value for value in values if isinstance(value, dict)]
    if not inner:
        return None
    keys = list(dict.fromkeys(k for value in inner for k in value))
    if columns := _corner_columns(keys, order):
        return tuple(f"{path}.{column}" for column in columns)
    lowered = {k.lower(): k for k in keys}
    for name in ("vertices", "normalizedvertices", "normalized_vertices", *BOXES):
        if name in lowered:
            below = [value[lowered[name]] for value in inner if value.get(lowered[name]) is not None]
            if found := _box_path(f"{path}.{lowered[name]}", below, order):
                return found
    return None


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and (not value or any(isinstance(item, kind) for item in value))


def _numeric(sample: Sample, labels: str | None) -> bool:
    """Whether labels are numbers wherever there are any."""
    if labels is None:
        return False
    items = [
        item
        for value in sample.values(labels)
        for item in (cell(value) if isinstance(cell(value), list) else [value])
    ]
    numbers = [
        i for i in items if isinstance(i, (int, float)) or (isinstance(i, str) and i.lstrip("-").isdigit())
    ]
    return bool(items) and len(numbers) * 2 > len(items)
