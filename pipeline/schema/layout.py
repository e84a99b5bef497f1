"""The ``layout:`` section: words, boxes, labels and page image of a document."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Is
from pydantic import model_validator

from pipeline.schema.columns import Strict

BoxOrder = Literal["xyxy", "xywh", "quad", "polygon", "vertices", "rotated_xywh"]
BoxUnit = Literal["pixel", "point", "inch", "percent", "ratio", "norm1000"]


class UnitField(Strict):
    """Each record gives the unit: a path, and what its values mean."""

    column: str
    values: dict[str, BoxUnit] = {"pixel": "pixel", "inch": "inch", "point": "point"}


class Boxes(Strict):
    """How boxes are written. Nothing is guessed."""

    column: str | None = None
    """Field with one box a word."""
    columns: tuple[str, ...] | None = None
    """One column a coordinate, for row-per-word tables."""
    order: BoxOrder
    """``quad``: 8 numbers from any corner; ``polygon``: any even count; ``vertices``: objects with x and y, a
    missing one is 0; ``rotated_xywh``: x, y, width, height, clockwise degrees about the top-left corner."""
    unit: BoxUnit | UnitField
    origin: Literal["top_left", "bottom_left"] = "top_left"

    @model_validator(mode="after")
    def _one_place(self) -> Boxes:
        if (self.column is None) == (self.columns is None):
            raise ValueError("give either `column` or `columns`")
        return self


class Page(Strict):
    """The page's size, in the unit of its boxes (not needed for ratio, percent and norm1000)."""

    from_image: bool = False
    """Whether the page is as large as its image, in pixels: for sets that state no size (FUNSD, SROIE)."""

    width: str | float | None = None
    """Field, or a constant."""
    height: str | float | None = None
    box: str | tuple[float, float, float, float] | None = None
    """Field with the page box [x0, y0, x1, y1], or its four numbers; its corner is subtracted from every box."""


class Labels(Strict):
    """One label a word."""

    column: str
    names: Annotated[tuple[str, ...], Is(min_length=1)]
    """The closed list; its order gives the ids."""
    form: Literal["names", "ids"] = "names"
    ignore_id: int | None = -100
    """The id that means "no label"; null: there is none."""
    scheme: Literal["bio", "bioes", "none"] = "bio"
    align: Literal["first_subword", "all_subwords"] = "first_subword"
    fold_case: bool = False
    """Whether ``b-key`` is read as ``B-KEY``, and the repair recorded."""
    required: bool = True


class PageLabel(Strict):
    """One label a page: sequence classification. Every window of the page carries it."""

    column: str
    names: Annotated[tuple[str, ...], Is(min_length=1)]
    """The closed list; its order gives the ids."""
    form: Literal["names", "ids"] = "names"


class Question(Strict):
    """A question on the page, answered by a span of its words: extractive question answering."""

    column: str
    """Field with the question."""
    start: str | None = None
    """Field with the index, from 0, of the answer's first word; blank: the page has no answer."""
    end: str | None = None
    """Field with the index of its last word."""

    @model_validator(mode="after")
    def _both_ends(self) -> Question:
        if (self.start is None) != (self.end is None):
            raise ValueError("give both `start` and `end`, or neither")
        return self


class Image(Strict):
    """The page image."""

    column: str | None = None
    """Field with its path, relative to the raw file or to the raw folder."""
    pattern: str | None = None
    """Instead of a field: a path with ``{stem}`` for the raw file's name without its suffix, for sets with one file
    a page, e.g. ``../images/{stem}.png``."""
    required: bool = True
    frame: int = 0
    """Page of a multi-frame image."""
    max_pixels: Annotated[int, Is(gt=0)] = 64_000_000
    aspect_tolerance: Annotated[float, Is(ge=0)] = 0.02
    """Largest relative difference between the image's and the page's aspect ratio."""

    @model_validator(mode="after")
    def _one_place(self) -> Image:
        if (self.column is None) == (self.pattern is None):
            raise ValueError("give either `column` or `pattern`")
        return self


class ClipTolerance(Strict):
    """How far a coordinate may lie beyond the page and still be clipped: in pixels or percent of the side."""

    pixels: Annotated[float, Is(ge=0)] | None = None
    percent: Annotated[float, Is(ge=0)] | None = None


class Window(Strict):
    """Long pages become windows of tokens."""

    max_tokens: Annotated[int, Is(ge=8)] = 512
    """Tokens of one window, specials counted. Never more than the family allows."""
    stride: Annotated[int, Is(ge=0)] = 128
    """Tokens shared by two neighbouring windows; their labels are -100 in the later one."""


class Layout(Strict):
    """A document with one box a word."""

    words: str
    boxes: Boxes
    page: Page = Page()
    labels: Labels | None = None
    """One label a word: token classification."""
    page_label: PageLabel | None = None
    question: Question | None = None
    image: Image | None = None
    clip_tolerance: ClipTolerance = ClipTolerance(percent=0.5)
    drop_words: tuple[str, ...] = ()
    """Regular expressions of pseudo-words, dropped with box and label."""
    rounding: Literal["truncate", "round"] = "truncate"
    """How 1000 · x / width becomes a whole number; the model families were pre-trained with ``truncate``."""
    geometry: Literal["judge", "off"] = "judge"
    """Whether a page whose geometry cannot be right is set aside (``bbox_unit_suspect``)."""
    window: Window = Window()

    @model_validator(mode="after")
    def _one_task(self) -> Layout:
        if self.labels is not None and self.page_label is not None:
            raise ValueError("give either `labels` or `page_label`")
        return self

    @model_validator(mode="after")
    def _sized_by_its_image(self) -> Layout:
        page = self.page
        if page.from_image and self.image is None:
            raise ValueError("`page: from_image` needs an `image`")
        if page.from_image and (page.width is not None or page.height is not None or page.box is not None):
            raise ValueError("`page: from_image` goes without `width`, `height` and `box`")
        return self
