"""The ``read: reshape:`` steps: how nested documents of OCR and annotation tools become records, declared once.

Paths start at the record (``$.pages``) in ``list`` and ``text``, and at an element of that list (``$.key``) in ``key``
and ``take``. Each step works on what the steps before it left; ``each`` and ``group`` make several records of one.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field as Is
from pydantic import field_validator

from pipeline.schema.columns import Strict

Path = Annotated[str, Is(pattern=r"^\$")]


class Each(Strict):
    """One record an element: a page of a document, a document of a collection."""

    do: Literal["each"]
    list: Path
    keep: dict[str, Path] = {}
    """Values of the whole document that each record keeps, by their new names."""


class Where(Strict):
    """Only the elements with this value: Textract's blocks of type WORD."""

    do: Literal["where"]
    list: Path
    key: Path
    equals: str | int | None = None
    """The value; none: any value, so that elements without the key are dropped."""
    into: str | None = None
    """Name of the record's new list; without it the list itself is filtered."""


class Group(Strict):
    """One record a value of ``key``, in order of appearance; elements without it form one of their own."""

    do: Literal["group"]
    list: Path
    key: Path
    into: str = "items"


class Merge(Strict):
    """Elements with one ``key`` become one element with the members of all: Label Studio's results of one region."""

    do: Literal["merge"]
    list: Path
    key: Path


class Join(Strict):
    """Each element gets the element of another list whose ``other_key`` equals its ``key``: COCO's categories."""

    do: Literal["join"]
    list: Path
    key: Path
    other: Path
    other_key: Path
    into: str


class Nest(Strict):
    """Each element gets the list of the other list's elements whose ``other_key`` equals its ``key``: an image's
    boxes."""

    do: Literal["nest"]
    list: Path
    key: Path
    other: Path
    other_key: Path
    into: str


class Pick(Strict):
    """Each element gets a list of several of its values: the numbers of a box. Text that spells a number is one."""

    do: Literal["pick"]
    list: Path
    take: Annotated[tuple[Path, ...], Is(min_length=1)]
    into: str


class Number(Strict):
    """Each element gets the number that a text of it spells: ALTO's page width."""

    do: Literal["number"]
    list: Path
    take: Path
    into: str


class Parse(Strict):
    """Each element gets the JSON value that a text of it spells: the second column of PaddleOCR's label file."""

    do: Literal["parse"]
    list: Path
    take: Path
    into: str


class Match(Strict):
    """Each element gets the numbers in the groups of a pattern: hOCR's ``bbox 36 92 96 116``."""

    do: Literal["match"]
    list: Path
    take: Path
    pattern: str
    into: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return pattern


class Concat(Strict):
    """Each element gets texts joined: Vision's symbols of a word. Of several paths the first that leads to text."""

    do: Literal["concat"]
    list: Path
    take: Path | tuple[Path, ...]
    into: str
    between: str = ""


class Anchor(Strict):
    """Each element gets the part of the record's ``text`` that its segments mark: Document AI's text anchors."""

    do: Literal["anchor"]
    list: Path
    take: Path
    """The segments: objects with ``startIndex`` (0 when missing) and ``endIndex``, in characters."""
    text: Path
    into: str


class Spread(Strict):
    """The label of an entity becomes the labels of its words: FUNSD's entities with nested words."""

    do: Literal["spread"]
    list: Path
    take: Path
    """The entity's label."""
    over: str
    """Key of its list of words."""
    into: str
    scheme: Literal["bio", "none"] = "bio"
    word: str = "text"
    """Key of a word's text: B- goes to the first word that is not blank."""
    outside: tuple[str, ...] = ()
    """Labels that mean ``O``."""
    upper: bool = False


class Lift(Strict):
    """The record gets a value from the elements of a list: the page size that every result repeats."""

    do: Literal["lift"]
    list: Path
    take: Path
    into: str


class Descend(Strict):
    """The record gets the list of all elements below it with this value, at any depth: the words of hOCR and ALTO."""

    do: Literal["descend"]
    key: str
    equals: str
    into: str


Step = Annotated[
    Each
    | Where
    | Group
    | Merge
    | Join
    | Nest
    | Pick
    | Number
    | Parse
    | Match
    | Concat
    | Anchor
    | Spread
    | Lift
    | Descend,
    Is(discriminator="do"),
]
