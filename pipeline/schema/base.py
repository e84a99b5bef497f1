"""Base of every part of a schema: unknown keys are errors, values are never coerced in silence."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A mapping in the YAML file. Keys not declared are refused; the model is immutable and hashable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)
