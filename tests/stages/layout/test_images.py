"""Images are decoded whole, upright, RGB over white, and show the stated page."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pipeline.models.families import FAMILIES, ImageSpec
from pipeline.reasons import Policy, Reason
from pipeline.stages.layout.images import PictureFault, find_image, read_picture, rgb, same_aspect
from tests.stages.layout.documents import Judged, encode, schema

SPEC = ImageSpec()
SIDE = 40


def drawn(mode: str = "RGB", size: tuple[int, int] = (SIDE, SIDE)) -> Image.Image:
    """White paper with a black square in its lower right quarter."""
    image = Image.new("L", size, 255)
    image.paste(0, (size[0] // 2, size[1] // 2, size[0], size[1]))
    return image.convert(mode)


def one(raw: Path, written: str | None = "a.png", **options: Any) -> Judged:
    page = {
        "words": ["x"],
        "boxes": [[0, 0, 20, 20]],
        "labels": ["O"],
        "image": written,
        "page_width": options.pop("width", SIDE),
        "page_height": options.pop("height", SIDE),
    }
    image = {"column": "image", **options.pop("image", {})}
    return encode([page], schema(image=image, **options), raw)


def pixels(judged: Judged) -> np.ndarray[Any, Any]:
    """Stored pixels of the only page, [224, 224, 3]."""
    assert judged.samples is not None
    assert judged.samples.pages is not None
    (page,) = judged.samples.pages.to_pylist()
    assert judged.samples.table["page_id"].to_pylist() == [page["page_id"]]
    return np.array(page["pixels"], np.uint8).reshape(3, 224, 224).transpose(1, 2, 0)


def is_drawing(stored: np.ndarray[Any, Any]) -> bool:
    return bool(
        (stored[10, 10] == 255).all() and (stored[210, 210] == 0).all() and (stored[210, 10] == 255).all()
    )


HELD = {
    "png": ("RGB", "L", "1", "P", "LA", "RGBA", "I;16"),
    "jpg": ("RGB", "L", "CMYK", "YCbCr"),
    "tif": ("RGB", "L", "1", "P", "LA", "RGBA", "CMYK", "I;16", "YCbCr"),
    "webp": ("RGB", "L", "RGBA"),
    "bmp": ("RGB", "L", "1", "P"),
    "gif": ("RGB", "L", "1", "P", "RGBA"),
}
"""Modes that each format can hold."""


@pytest.mark.parametrize(
    ("suffix", "mode"), [(suffix, mode) for suffix, modes in HELD.items() for mode in modes]
)
def test_every_mode_becomes_rgb(suffix: str, mode: str, tmp_path: Path) -> None:
    image = drawn("RGB" if mode == "I;16" else mode)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(drawn("L")).astype(np.uint16) * 257)
    image.save(tmp_path / f"a.{suffix}", quality=100)
    judged = one(tmp_path, f"a.{suffix}")
    assert judged.good()
    assert np.abs(pixels(judged)[[10, 210], [10, 210]].astype(int) - [[255] * 3, [0] * 3]).max() <= 3
    with Image.open(tmp_path / f"a.{suffix}") as stored:
        converted = stored.mode != "RGB"
    assert judged.slugs(policy=Policy.REPAIR) == (["image_converted"] if converted else [])


def test_what_is_transparent_is_white_paper(tmp_path: Path) -> None:
    image = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (SIDE // 2, SIDE // 2, SIDE, SIDE))
    image.save(tmp_path / "a.png")
    assert is_drawing(pixels(one(tmp_path)))


@pytest.mark.parametrize("mode", ["L", "RGB", "P"])
def test_a_colour_declared_transparent_is_white_paper(mode: str, tmp_path: Path) -> None:
    image = Image.new("L", (SIDE, SIDE), 77)
    image.paste(0, (SIDE // 2, SIDE // 2, SIDE, SIDE))
    image = image.convert(mode)
    see_through = image.getpixel((0, 0))
    image.save(tmp_path / "a.png", transparency=see_through)
    judged = one(tmp_path)
    assert is_drawing(pixels(judged))
    assert judged.slugs(policy=Policy.REPAIR) == ["image_converted"]


def test_sixteen_bits_keep_their_levels(tmp_path: Path) -> None:
    ramp = np.tile(np.arange(256, dtype=np.uint16) * 257, (8, 1))
    Image.fromarray(ramp).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(np.asarray(rgb(image))[0, :, 0], np.arange(256))


def test_samples_of_unknown_range_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.ones((SIDE, SIDE), np.float32)).save(tmp_path / "a.tif")
    assert one(tmp_path, "a.tif").slugs(policy=Policy.QUARANTINE) == ["image_undecodable"]


@pytest.mark.parametrize("orientation", range(2, 9))
def test_exif_orientation_is_applied(orientation: int, tmp_path: Path) -> None:
    upright = drawn(size=(60, 40))
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[orientation]
    stored = upright.transpose(Image.Transpose(back))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.png", exif=exif)
    judged = one(tmp_path, width=60, height=40)
    assert judged.slugs() == ["image_oriented"]
    assert is_drawing(pixels(judged))


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "gif", "webp", "bmp"])
@pytest.mark.parametrize("share", [0.6, 0.9])
def test_a_file_that_is_cut_off_never_passes(suffix: str, share: float, tmp_path: Path) -> None:
    noise = np.random.default_rng(7).integers(0, 255, (120, 120, 3), np.uint8)
    held = io.BytesIO()
    Image.fromarray(noise).save(held, {"jpg": "JPEG", "tif": "TIFF"}.get(suffix, suffix.upper()))
    data = held.getvalue()
    (tmp_path / f"a.{suffix}").write_bytes(data[: int(len(data) * share)])
    judged = one(tmp_path, f"a.{suffix}", width=120, height=120)
    (slug,) = judged.slugs(policy=Policy.QUARANTINE)
    assert slug in ("image_truncated", "image_undecodable")
    if suffix in ("jpg", "png"):
        assert slug == "image_truncated"


@pytest.mark.parametrize(
    "data", [b"", b"no image", b"%PDF-1.4\n", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\x89PNG\r\n\x1a\n" + b"\0" * 50]
)
def test_what_is_no_image(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(data)
    (slug,) = one(tmp_path).slugs(policy=Policy.QUARANTINE)
    assert slug in ("image_undecodable", "image_truncated")


def test_the_pixel_limit_holds_before_decoding(tmp_path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(tmp_path / "a.png")
    judged = one(tmp_path, width=20_000, height=20_000)
    assert judged.slugs(policy=Policy.QUARANTINE) == ["image_too_large"]
    drawn().save(tmp_path / "a.png")
    assert one(tmp_path, image={"max_pixels": SIDE * SIDE}).good()
    assert not one(tmp_path, image={"max_pixels": SIDE * SIDE - 1}).good()


def test_a_page_of_a_file_with_several(tmp_path: Path) -> None:
    blank = Image.new("L", (SIDE, SIDE), 255)
    blank.save(tmp_path / "a.tif", save_all=True, append_images=[drawn("L")])
    assert not is_drawing(pixels(one(tmp_path, "a.tif")))
    assert is_drawing(pixels(one(tmp_path, "a.tif", image={"frame": 1})))
    assert not one(tmp_path, "a.tif", image={"frame": 2}).good()


@pytest.mark.parametrize(
    ("size", "slug", "policy"),
    [
        ((40, 60), "image_size_mismatch", Policy.QUARANTINE),
        ((600, 400), "image_resolution", Policy.FLAG),
        ((61, 40), "image_resolution", Policy.FLAG),
        ((60, 45), "image_size_mismatch", Policy.QUARANTINE),
    ],
)
def test_the_image_has_the_pages_shape(
    size: tuple[int, int], slug: str, policy: Policy, tmp_path: Path
) -> None:
    drawn(size=(60, 40)).save(tmp_path / "a.png")
    assert one(tmp_path, width=60, height=40).slugs() == []
    judged = one(tmp_path, width=size[0], height=size[1])
    assert judged.slugs(policy=policy) == [slug]


def test_points_say_nothing_of_the_resolution(tmp_path: Path) -> None:
    drawn(size=(1700, 2200)).save(tmp_path / "a.png")
    assert one(tmp_path, unit="point", width=612, height=792).slugs() == []


@given(st.integers(1, 3000), st.integers(1, 3000), st.floats(1, 20))
def test_a_scaled_page_keeps_its_aspect(width: int, height: int, scale: float) -> None:
    assert same_aspect((round(width * scale), round(height * scale)), (width, height), 0.0)


def test_paths_are_relative_to_the_file_or_the_raw_folder(tmp_path: Path) -> None:
    (tmp_path / "forms" / "images").mkdir(parents=True)
    for path in ("forms/images/a.png", "b.png"):
        (tmp_path / path).write_bytes(b"")
    assert find_image("images/a.png", "forms/x.jsonl", tmp_path) == tmp_path / "forms/images/a.png"
    assert find_image("b.png", "forms/x.jsonl", tmp_path) == tmp_path / "b.png"
    assert find_image("../b.png", "forms/x.jsonl", tmp_path) == tmp_path / "b.png"


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("c.png", Reason.IMAGE_MISSING),
        ("", Reason.IMAGE_MISSING),
        ("forms", Reason.IMAGE_MISSING),
        ("a\0b", Reason.IMAGE_MISSING),
        ("x" * 5000, Reason.IMAGE_MISSING),
        ("pipe", Reason.IMAGE_MISSING),
        ("loop", Reason.IMAGE_MISSING),
        ("../../etc/passwd", Reason.IMAGE_PATH_ESCAPE),
        ("/etc/passwd", Reason.IMAGE_PATH_ESCAPE),
        ("out.png", Reason.IMAGE_PATH_ESCAPE),
    ],
)
def test_paths_that_lead_nowhere_or_out(written: str, reason: Reason, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    (raw / "forms").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(b"")
    (raw / "out.png").symlink_to(tmp_path / "secret.png")
    (raw / "loop").symlink_to(raw / "loop")
    os.mkfifo(raw / "pipe")
    with pytest.raises(PictureFault) as caught:
        find_image(written, "forms/x.jsonl", raw)
    assert caught.value.reason is reason


@pytest.mark.parametrize("written", ["x" * 5000 + ".png", "forms/" * 2000, "a\0.png", "a.png/b.png"])
def test_a_name_that_no_file_can_have_costs_its_record(written: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    assert "image_missing" in one(tmp_path, written).slugs()


def test_a_page_that_needs_no_image(tmp_path: Path) -> None:
    judged = one(tmp_path, None, image={"required": False})
    assert judged.good()
    assert judged.samples is not None
    assert judged.samples.table["page_id"].to_pylist() == [None]
    assert judged.samples.pages is not None
    assert judged.samples.pages.num_rows == 0


def test_one_image_of_many_records_is_stored_once(tmp_path: Path) -> None:
    drawn().save(tmp_path / "a.png")
    drawn("L").save(tmp_path / "b.png")
    page = {
        "words": ["x"],
        "boxes": [[0, 0, 20, 20]],
        "labels": ["O"],
        "page_width": SIDE,
        "page_height": SIDE,
    }
    judged = encode(
        [{**page, "image": name} for name in ("a.png", "a.png", "b.png")],
        schema(image={"column": "image"}),
        tmp_path,
    )
    assert judged.samples is not None
    assert judged.samples.pages is not None
    assert judged.samples.pages.num_rows == 1
    assert len(set(judged.samples.table["page_id"].to_pylist())) == 1


def test_layoutlmv2_sees_blue_first(tmp_path: Path) -> None:
    Image.new("RGB", (10, 10), (200, 100, 50)).save(tmp_path / "a.png")
    spec = FAMILIES["layoutlmv2"].image
    assert spec is not None
    stored = np.frombuffer(read_picture(tmp_path / "a.png", 0, 1000, spec).pixels, np.uint8).reshape(3, -1)
    assert stored[:, 0].tolist() == [50, 100, 200]
