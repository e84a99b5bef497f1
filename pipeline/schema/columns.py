"""The ``columns:`` section, and the strict base of every section."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic import Field as Is

# Base of every part of a schema: unknown keys are errors, values are never coerced in silence.


class Strict(BaseModel):
    """A mapping in the YAML file. Keys not declared are refused; the model is immutable and hashable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


# The ``columns:`` section: typed columns carried into the certified shards, and their rules.


RESERVED = ("sample_id", "source", "sheet", "row", "notes", "window", "windows", "page_id")
"""Names of the provenance columns, which no schema column may take."""

ScalarName = Literal["text", "integer", "number", "boolean", "date", "datetime", "json"]


class Item(Strict):
    """Type of a list's elements or a struct's member."""

    type: ScalarName | Literal["list", "struct"] = "text"
    required: bool = True
    """Whether a struct member must be there."""
    items: Item | None = None
    fields: dict[str, Item] = {}


class Column(Strict):
    """One typed column."""

    type: ScalarName | Literal["list", "struct"] = "text"
    column: str | None = None
    """Header, key or JSON path it is read from; default: its own name."""
    required: bool = True
    """Whether a missing or blank value is a finding."""
    blank: Literal["refuse", "allow"] = "refuse"
    """For text: whether white space alone counts as a value."""
    min: float | None = None
    max: float | None = None
    min_characters: Annotated[int, Is(ge=0)] | None = None
    max_characters: Annotated[int, Is(ge=1)] | None = None
    allowed: tuple[str, ...] | tuple[int, ...] | None = None
    pattern: str | None = None
    """Regular expression the whole text must match."""
    as_shown: bool = False
    """For text: take a JSON number or boolean as the file spells it ("42", never "42.0")."""
    items: Item | None = None
    """For lists: the type of the elements."""
    fields: dict[str, Item] = {}
    """For structs: the members."""

    @model_validator(mode="after")
    def _shape(self) -> Column:
        if self.type == "list" and self.items is None:
            raise ValueError("a list column needs `items`")
        if self.type == "struct" and not self.fields:
            raise ValueError("a struct column needs `fields`")
        if self.type not in ("integer", "number") and (self.min is not None or self.max is not None):
            raise ValueError("`min` and `max` are for integer and number columns")
        return self
