"""Page images: found inside the raw folder, decoded whole, held against the stated page size, kept once a page."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings
from pipeline.models.families import ImageSpec
from pipeline.reasons import Reason
from pipeline.schema.layout import Image as ImageSection
from pipeline.schema.layout import Layout
from pipeline.schema.model import LayoutSchema
from pipeline.shards.files import file_sha256
from pipeline.stages.context import Context
from pipeline.stages.layout.page_size import HEIGHT, WIDTH, Pages, pages

if TYPE_CHECKING:
    from PIL import Image


# One image file: decoded whole, made upright RGB over white, resized as the model family's image processor
# does.


FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000")
"""Formats that Pillow decodes by itself; the others hand the file to another program, or are no page images."""
ORIENTATION = 0x0112
"""EXIF tag; 1 is upright."""


class PictureFault(Exception):
    """An image that cannot be used: the reason, what was found and expected."""

    def __init__(self, reason: Reason, found: str, expected: str = "") -> None:
        super().__init__(reason, found, expected)
        self.reason, self.found, self.expected = reason, found, expected


@dataclass(frozen=True, slots=True)
class Picture:
    """A page image.

    Attributes:
        pixels: uint8 [3 · side · side], channel first, in the family's channel order.
        page_id: first 20 hexadecimal digits of the sha256 of ``pixels``.
        size: width and height in pixels, upright, before the resize.
        mode: Pillow's name of the samples it had, ``RGB`` where nothing was converted.
        orientation: EXIF orientation that was applied, 1 for none.
    """

    pixels: bytes
    page_id: str
    size: tuple[int, int]
    mode: str
    orientation: int


def read_picture(path: Path, frame: int, max_pixels: int, spec: ImageSpec) -> Picture:
    """Read one page of an image file.

    Raises:
        PictureFault: too many pixels, cut off, or not to be decoded.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a bomb warning: the limit below is the schema's own
            with Image.open(path, formats=FORMATS) as image:
                if frame:
                    image.seek(frame)
                _limit(image.size, max_pixels)
                image.load()
                return _picture(image, spec)
    except PictureFault:
        raise
    except Image.DecompressionBombError as error:
        raise PictureFault(Reason.IMAGE_TOO_LARGE, "far more", f"{max_pixels}") from error
    except UnidentifiedImageError as error:
        raise PictureFault(Reason.IMAGE_UNDECODABLE, "no image of a known format") from error
    except MemoryError as error:
        raise PictureFault(Reason.IMAGE_TOO_LARGE, "more than fits memory", f"{max_pixels}") from error
    except (
        Exception
    ) as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error, EOFError …
        raise PictureFault(_cut_or_broken(error), f"{type(error).__name__} while decoding") from error


def _limit(size: tuple[int, int], max_pixels: int) -> None:
    if size[0] * size[1] > max_pixels:
        raise PictureFault(Reason.IMAGE_TOO_LARGE, f"{size[0]} × {size[1]}", str(max_pixels))


def _cut_or_broken(error: Exception) -> Reason:
    text = str(error).lower()
    cut = isinstance(error, EOFError) or any(word in text for word in ("truncated", "premature", "too short"))
    return Reason.IMAGE_TRUNCATED if cut else Reason.IMAGE_UNDECODABLE


def _picture(image: Image.Image, spec: ImageSpec) -> Picture:
    from PIL import Image as Pillow
    from PIL import ImageOps

    mode = image.mode if "transparency" not in image.info else f"{image.mode} with a transparent colour"
    orientation = int(image.getexif().get(ORIENTATION, 1) or 1)
    upright = ImageOps.exif_transpose(image) if orientation in range(2, 9) else image
    colour = rgb(upright)
    small = colour.resize((spec.side, spec.side), Pillow.Resampling.BILINEAR)
    channels = np.asarray(small).transpose(2, 0, 1)
    if spec.channels == "BGR":
        channels = channels[::-1]
    pixels = np.ascontiguousarray(channels).tobytes()
    return Picture(
        pixels=pixels,
        page_id=sha256(pixels).hexdigest()[:20],
        size=upright.size,
        mode=mode,
        orientation=orientation if orientation in range(2, 9) else 1,
    )


def rgb(image: Image.Image) -> Image.Image:
    """Eight-bit RGB. What is transparent becomes white paper; 16-bit grey keeps its upper eight bits.

    Raises:
        PictureFault: 32-bit samples, whose range the file does not tell; NaN or infinity among them.
    """
    from PIL import Image as Pillow

    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        grey = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return Pillow.fromarray(grey).convert("RGB")
    if image.mode == "F" and not np.isfinite(np.asarray(image)).all():
        raise PictureFault(Reason.PIXELS_NOT_FINITE, "NaN or infinity among the samples", "finite numbers")
    if image.mode in ("I", "F"):
        raise PictureFault(
            Reason.IMAGE_UNDECODABLE, f"32-bit samples (mode {image.mode})", "8 or 16 bits a sample"
        )
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        paper = Pillow.new("RGBA", image.size, (255, 255, 255, 255))
        return Pillow.alpha_composite(paper, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


# Where a page image lies: relative to the raw file or to the raw folder, and never outside it.


def candidates(written: str, source: str, raw: Path) -> list[Path]:
    """Where the image may lie inside the raw folder, in the order in which ``find_image`` looks."""
    paths = []
    for start in (raw / Path(source).parent, raw):
        try:
            path = (start / written).resolve()
        except (OSError, ValueError, RuntimeError):
            continue
        if path.is_relative_to(raw) and path not in paths:
            paths.append(path)
    return paths


def there(path: Path) -> bool:
    """Whether a file lies there; nothing lies at a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def find_image(written: str, source: str, raw: Path) -> Path:
    """The image file that a record of ``source`` names, links resolved.

    Args:
        written: the path as written in the record.
        source: the record's file, relative to the raw folder.
        raw: the raw folder, links resolved.

    Raises:
        PictureFault: no such file, or it leads out of the raw folder.
    """
    outside, tried = [], 0
    for start in (raw / Path(source).parent, raw):
        try:
            path = (start / written).resolve()
            tried += 1
            if not path.is_relative_to(raw):
                outside.append(path.exists())
            elif path.is_file():
                return path
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, a loop of links
            continue
    # One of the two readings may lead out and mean nothing, as `../images/a.png` does from the raw folder.
    if any(outside) or (outside and len(outside) == tried):
        raise PictureFault(Reason.IMAGE_PATH_ESCAPE, written[:80])
    raise PictureFault(Reason.IMAGE_MISSING, written[:80])


# Page images: one a record, held against the stated page size, and kept once a page.


IMAGE, PAGE_ID, PIXELS = "@image", "@page_id", "@pixels"


def image_spec(context: Context[LayoutSchema]) -> ImageSpec:
    """How the family makes pixels; LayoutLMv3's way where no family is named."""
    return context.limits.image or ImageSpec()


@dataclass(slots=True)
class ImageStage:
    """Judge and convert images. Adds ``@page_id`` (String) and ``@pixels`` (Binary).

    ``refers`` gathers the sha256 of every image a record names, by its path in the raw folder ("" where there is
    none): what was made of the records holds only while these are the same.
    """

    context: Context[LayoutSchema]
    image: ImageSection
    refers: dict[str, str] = field(default_factory=dict)
    name: str = "images"
    _layout: Layout = field(init=False)
    _spec: ImageSpec = field(init=False)
    _raw: Path = field(init=False)

    def __post_init__(self) -> None:
        self._layout = self.context.schema.layout
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
        if self.image.pattern is None:
            return batch
        name = self.image.pattern.replace("{stem}", PurePosixPath(batch.source).stem)
        return batch.with_frame(batch.frame.with_columns(pl.lit(name).alias(IMAGE)))

    def _open(self, written: str, source: str) -> Picture | PictureFault:
        for path in candidates(written, source, self._raw):
            found = there(path)
            self.refers[path.relative_to(self._raw).as_posix()] = file_sha256(path) if found else ""
            if found:
                break
        try:
            path = find_image(written, source, self._raw)
            return read_picture(path, self.image.frame, self.image.max_pixels, self._spec)
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
        if not same_aspect(picture.size, (width, height), self.image.aspect_tolerance):
            swapped = same_aspect(picture.size, (height, width), self.image.aspect_tolerance)
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

    def of(self, batch: Batch, context: Context[LayoutSchema]) -> Findings:
        findings = Findings()
        for reason, hits in self._hits.items():
            findings.add(
                reason,
                context.schema.policy(reason),
                IMAGE,
                batch.ids[[at for at, _, _ in hits]],
                found=[found for _, found, _ in hits],
                expected=[expected for _, _, expected in hits],
            )
        return findings
