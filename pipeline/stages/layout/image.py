"""Page images: one a record, held against the stated page size, and kept once a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings
from pipeline.models.families import ImageSpec
from pipeline.reasons import Reason
from pipeline.schema.layout import Image, Layout
from pipeline.shards.content import file_sha256
from pipeline.stages.context import Context
from pipeline.stages.layout.page import HEIGHT, WIDTH, Pages, pages
from pipeline.stages.layout.picture import Picture, PictureFault, read_picture
from pipeline.stages.layout.place import candidates, find_image, there

IMAGE, PAGE_ID, PIXELS = "@image", "@page_id", "@pixels"


def image_spec(context: Context) -> ImageSpec:
    """How the family makes pixels; LayoutLMv3's way where no family is named."""
    limits = context.limits
    return limits.image if limits is not None and limits.image is not None else ImageSpec()


@dataclass(slots=True)
class ImageStage:
    """Judge and convert images. Adds ``@page_id`` (String) and ``@pixels`` (Binary).

    ``refers`` gathers the sha256 of every image a record names, by its path in the raw folder ("" where there is
    none): what was made of the records holds only while these are the same.
    """

    context: Context
    name: str = "images"
    refers: dict[str, str] = field(default_factory=dict)
    _layout: Layout = field(init=False)
    _image: Image = field(init=False)
    _spec: ImageSpec = field(init=False)
    _raw: Path = field(init=False)

    def __post_init__(self) -> None:
        layout = self.context.schema.layout
        assert layout is not None  # noqa: S101 - the model proves it
        assert layout.image is not None  # noqa: S101 - `record_stages` makes no such stage without images
        self._layout, self._image = layout, layout.image
        self._spec, self._raw = image_spec(self.context), self.context.raw.resolve()

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = _Found()
        batch = self._named(batch)
        sized = self._layout.page.from_image
        page = None if sized else pages(batch, self._layout, Findings())
        known: dict[str, Picture | PictureFault] = {}
        page_ids: list[str | None] = []
        pixels: list[bytes | None] = []
        sizes: list[tuple[int, int] | tuple[None, None]] = []
        for at, written in enumerate(batch.frame[IMAGE].to_list()):
            picture = None
            if written is not None:
                if written not in known:
                    known[written] = self._open(written, batch.source)
                picture = self._judged(known[written], page, at, findings)
            page_ids.append(None if picture is None else picture.page_id)
            pixels.append(None if picture is None else picture.pixels)
            sizes.append((None, None) if picture is None else picture.size)
        columns = [pl.Series(PAGE_ID, page_ids, pl.String), pl.Series(PIXELS, pixels, pl.Binary)]
        if sized:
            for axis, name in enumerate((WIDTH, HEIGHT)):
                columns.append(pl.Series(name, [size[axis] for size in sizes], pl.Float64))
        return batch.with_frame(batch.frame.with_columns(columns)), findings.of(batch, self.context)

    def _named(self, batch: Batch) -> Batch:
        """With the path of each record's image, where the schema gives a pattern instead of a field."""
        if self._image.pattern is None:
            return batch
        name = self._image.pattern.replace("{stem}", PurePosixPath(batch.source).stem)
        return batch.with_frame(batch.frame.with_columns(pl.lit(name).alias(IMAGE)))

    def _open(self, written: str, source: str) -> Picture | PictureFault:
        for path in candidates(written, source, self._raw):
            found = there(path)
            self.refers[path.relative_to(self._raw).as_posix()] = file_sha256(path) if found else ""
            if found:
                break
        try:
            path = find_image(written, source, self._raw)
            return read_picture(path, self._image.frame, self._image.max_pixels, self._spec)
        except PictureFault as fault:
            return fault

    def _judged(
        self, picture: Picture | PictureFault, page: Pages | None, at: int, findings: _Found
    ) -> Picture | None:
        if isinstance(picture, PictureFault):
            findings.add(picture.reason, at, picture.found, picture.expected)
            return None
        if picture.mode != "RGB":
            findings.add(Reason.IMAGE_CONVERTED, at, picture.mode)
        if picture.orientation != 1:
            findings.add(Reason.IMAGE_ORIENTED, at, str(picture.orientation))
        if page is None:
            return picture
        width, height = page.stated[at].tolist()
        if not (np.isfinite(width) and np.isfinite(height) and width > 0 and height > 0):
            return picture
        found, expected = f"{picture.size[0]} × {picture.size[1]}", f"{width:g} × {height:g}"
        if not same_aspect(picture.size, (width, height), self._image.aspect_tolerance):
            swapped = same_aspect(picture.size, (height, width), self._image.aspect_tolerance)
            findings.add(
                Reason.IMAGE_SIZE_MISMATCH, at, found, expected + (" (sides swapped)" if swapped else "")
            )
        elif page.units[at] == "pixel" and picture.size != (round(width), round(height)):
            findings.add(Reason.IMAGE_RESOLUTION, at, found, expected)
        return picture


def same_aspect(image: tuple[int, int], page: tuple[float, float], tolerance: float) -> bool:
    """Whether an image shows a page of this size, at any resolution. A side one pixel off is no other page."""
    ratio = (image[0] / image[1]) / (page[0] / page[1])
    if max(ratio, 1 / ratio) - 1 <= tolerance:
        return True
    return (
        abs(image[0] - image[1] * page[0] / page[1]) <= 1 or abs(image[1] - image[0] * page[1] / page[0]) <= 1
    )


class _Found:
    """Findings on single images, gathered by reason."""

    def __init__(self) -> None:
        self._hits: dict[Reason, list[tuple[int, str, str]]] = {}

    def add(self, reason: Reason, at: int, found: str, expected: str = "") -> None:
        self._hits.setdefault(reason, []).append((at, found, expected))

    def of(self, batch: Batch, context: Context) -> Findings:
        findings = Findings()
        for reason, hits in self._hits.items():
            findings.add(
                reason, context.schema.policy(reason), IMAGE, batch.ids[[at for at, _, _ in hits]],
                found=[found for _, found, _ in hits], expected=[expected for _, _, expected in hits],
            )  # fmt: skip
        return findings
