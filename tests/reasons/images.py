"""Findings about page images."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image

from pipeline.reasons import Reason
from tests.reasons.case import Case, lines
from tests.reasons.documents import layout

SIZE = (40, 20)
UPSIDE_DOWN = 3
"""EXIF orientation that leaves width and height as they are."""


def _image(form: str = "PNG", size: tuple[int, int] = SIZE, mode: str = "RGB", orientation: int = 1) -> bytes:
    sink = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new(mode, size, 255).save(sink, form, exif=exif) if form == "JPEG" else Image.new(
        mode, size, 255
    ).save(sink, form)
    return sink.getvalue()


def _case(
    reason: Reason, bad: bytes | None, near: bytes, section: Mapping[str, Any] | None = None, **more: Any
) -> Case:
    """Two pages with an image each."""
    names = more.pop("names", ("bad.png", "near.png"))
    records = [
        {"words": ["a"], "boxes": [[1, 1, 9, 9]], "width": SIZE[0], "height": SIZE[1], "image": name}
        for name in names
    ]
    schema = layout({"image": {"column": "image", **(section or {})}}, ignore=["*.png"])
    files = {"a.jsonl": lines(*records), "near.png": near} | ({"bad.png": bad} if bad is not None else {})
    return Case(reason, schema, files, "a.jsonl:1", "a.jsonl:2", **more)


def _floats(worst: float) -> bytes:
    """A TIFF of 32-bit floats."""
    sink = io.BytesIO()
    samples = np.full(SIZE[::-1], 0.5, np.float32)
    samples[3, 3] = worst
    Image.fromarray(samples).save(sink, "TIFF")
    return sink.getvalue()


def _grey() -> bytes:
    """The same page as a TIFF of bytes."""
    sink = io.BytesIO()
    Image.new("L", SIZE, 127).save(sink, "TIFF")
    return sink.getvalue()


GOOD = _image()
CONVERTED = frozenset({"image_converted"})
CASES = (
    _case(Reason.IMAGE_MISSING, None, GOOD),
    _case(Reason.IMAGE_PATH_ESCAPE, None, GOOD, names=("../near.png", "scans/../near.png")),
    _case(Reason.IMAGE_TRUNCATED, GOOD[:50], GOOD, name="png"),
    _case(Reason.IMAGE_TRUNCATED, _image("JPEG")[:-20], _image("JPEG"), name="jpeg"),
    _case(Reason.IMAGE_UNDECODABLE, GOOD[1:], GOOD),
    _case(Reason.IMAGE_UNDECODABLE, _floats(0.5), _grey(), near_beside=CONVERTED, name="floats"),
    _case(Reason.PIXELS_NOT_FINITE, _floats(np.nan), _grey(), near_beside=CONVERTED),
    _case(Reason.IMAGE_TOO_LARGE, _image(size=(80, 40)), GOOD, {"max_pixels": 800}),
    _case(Reason.IMAGE_CONVERTED, _image(mode="L"), GOOD),
    _case(Reason.IMAGE_ORIENTED, _image("JPEG", orientation=UPSIDE_DOWN), _image("JPEG", orientation=1)),
    _case(Reason.IMAGE_SIZE_MISMATCH, _image(size=(20, 40)), GOOD),
    _case(Reason.IMAGE_RESOLUTION, _image(size=(80, 40)), GOOD),
)
