"""The page of document model families, made from ``pipeline/models/families.py``."""

from __future__ import annotations

from pipeline.models.families import FAMILIES, Family, Positions

_HEAD = """# Document model families

<!-- Made by `python -m docs.generate` from pipeline/models/families.py; do not edit. -->

What each family takes where no `config.json` says otherwise (`model: config:`; its numbers win). The source of each
number stands beside it in `pipeline/models/families.py`.

| family | most tokens | boxes | special boxes (cls, sep, pad) | inverted box | token types | pixels |
|---|---|---|---|---|---|---|
"""
_TAIL = """
*Most tokens*: P rows of position embeddings hold P tokens where positions count from 0 (pads counted), and
P − pad_id − 1 tokens where they start after the pad id (RoBERTa's way).
"""


def families_page() -> str:
    """One row a family."""
    return _HEAD + "".join(_row(name, family) for name, family in FAMILIES.items()) + _TAIL


def _row(name: str, family: Family) -> str:
    longest = family.positions.longest(family.position_rows, family.pad_id)
    after = family.positions is Positions.AFTER_PAD
    formula = f"{family.position_rows} − {family.pad_id} − 1" if after else str(family.position_rows)
    boxes = f"integers 0–1000, table of {family.box_rows}" if family.box_rows else "floats 0–1"
    specials = ", ".join(f"{box[0]:g}" for box in (family.cls_box, family.sep_box, family.pad_box))
    image = family.image
    pixels = f"{image.side} × {image.side} {image.channels}" if image is not None else "none"
    cells = (
        f"`{name}`",
        f"{longest} ({formula})",
        boxes,
        f"four times {specials}",
        "crash" if family.inverted_boxes_crash else "silent",
        str(family.type_rows),
        pixels,
    )
    return "| " + " | ".join(cells) + " |\n"
