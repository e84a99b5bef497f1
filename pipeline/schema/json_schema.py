"""The published JSON Schema of the schema language, for editors."""

from __future__ import annotations

from typing import Any

from pipeline.schema.model import Schema


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one schema file."""
    schema = Schema.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cleanroom schema, version 1",
        **{key: value for key, value in schema.items() if key != "title"},
    }
