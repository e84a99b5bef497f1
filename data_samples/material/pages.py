"""Pages of business forms, drawn: each word with the box of its ink, its label, and the page image."""

from __future__ import annotations

from dataclasses import dataclass, field

from PIL import Image, ImageDraw, ImageFont

from material import forms

WIDTH, HEIGHT = 816, 1056
"""Pixels: a letter page at 96 dots an inch."""

Box = tuple[int, int, int, int]


def _font(size: int) -> ImageFont.FreeTypeFont:
    """Pillow's own font with its plain layout: the same glyph places on every machine."""
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise SystemExit("Pillow was built without FreeType: pages cannot be drawn")
    return font.font_variant(size=size, layout_engine=ImageFont.Layout.BASIC)


@dataclass(slots=True)
class Page:
    """A page while it is drawn; boxes are (x0, y0, x1, y1) in pixels from the top-left corner."""

    image: Image.Image = field(default_factory=lambda: Image.new("RGB", (WIDTH, HEIGHT), "white"))
    words: list[str] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def write(self, x: int, y: int, text: str, label: str, size: int = 18) -> int:
        """Draw the words of ``text`` from (x, y) and return the x after them. ``label`` is O or an entity name,
        whose first word becomes B- and whose others become I-."""
        font, draw = _font(size), ImageDraw.Draw(self.image)
        for index, word in enumerate(text.split()):
            draw.text((x, y), word, font=font, fill=(20, 20, 30))
            left, top, right, bottom = font.getbbox(word)
            self.words.append(word)
            self.boxes.append((x + int(left), y + int(top), x + int(right), y + int(bottom)))
            self.labels.append("O" if label == "O" else f"{'I' if index else 'B'}-{label}")
            x += int(right) + size // 3
        return x

    def rule(self, y: int) -> None:
        """A thin line across the page."""
        ImageDraw.Draw(self.image).line((60, y, WIDTH - 60, y), fill=(150, 150, 160), width=2)


def _at(values: tuple[str, ...], number: int) -> str:
    plain = [value for value in values if value.isascii()]
    return plain[number % len(plain)]


def form(number: int) -> Page:
    """The form with this number: a title, seven keys with their values, and small print."""
    page = Page()
    title = _at(forms.TITLES, number)
    sender, receiver = _at(forms.ORGANISATIONS, number), _at(forms.ORGANISATIONS, number + 3)
    page.write(60, 48, sender, "O", 22)
    page.write(60, 96, title, "HEADER", 30)
    page.rule(148)
    values = (
        f"{title[0]}-{4471 + 37 * number}",
        f"{1 + (number * 11) % 28:02d}/{1 + number % 12:02d}/2024",
        receiver,
        f"{_at(forms.PLACES, number)}, {_at(forms.TOWNS, number + 1)}",
        _at(forms.ITEMS, number * 3),
        str(5 + (number * 17) % 90),
        f"EUR {120 + number * 77}.{(number * 13) % 100:02d}"
        if title == "INVOICE"
        else _at(forms.ROLES, number),
    )
    for row, (key, value) in enumerate(zip(forms.KEYS[title], values, strict=True)):
        y = 190 + 64 * row
        page.write(60, y, key, "KEY")
        page.write(320, y, value, "VALUE")
    page.rule(660)
    for row in range(2):
        page.write(60, 700 + 40 * row, _at(forms.NOTES, number + row), "O", 14)
    page.write(60, 980, f"Page 1 of 1 / form {number:02d}", "O", 12)
    return page


def dense(number: int) -> Page:
    """A page of small print under one heading: more tokens than one window holds."""
    page = Page()
    page.write(60, 40, "TERMS OF DELIVERY", "HEADER", 26)
    for row in range(44):
        y = 92 + 21 * row
        page.write(60, y, f"{row + 1}.", "KEY", 13)
        page.write(
            96, y, f"{_at(forms.NOTES, number + row)} {_at(forms.NOTES, number + row * 3 + 1)}", "O", 13
        )
    return page
