"""One image file: decoded whole, made upright RGB over white, resized as the model family's image processor does."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.models.families import ImageSpec
from pipeline.reasons import Reason

if TYPE_CHECKING:
    from PIL import Image

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
