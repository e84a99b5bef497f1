"""The published JSON Schema of the schema language, for editors."""

from __future__ import annotations

from typing import Any

from pipeline.schema.load import presets
from pipeline.schema.model import Schema


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one schema file."""
    schema = Schema.model_json_schema()
    schema["properties"]["preset"] = {
        "description": "A ready part of a schema for a known kind of source, laid under this one.",
        "enum": list(presets()),
    }
    schema["required"] = [key for key in schema["required"] if key != "kind"]
    schema["anyOf"] = [{"required": ["kind"]}, {"required": ["preset"]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cleanroom schema, version 1",
        **{key: value for key, value in schema.items() if key != "title"},
    }
