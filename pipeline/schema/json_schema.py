"""The published JSON Schema of the schema language, for editors."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from pipeline.schema.load import PATH, presets
from pipeline.schema.model import KINDS, AnySchema, Schema


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one schema file: all its keys, then what each kind needs and what it has not."""
    union = TypeAdapter(AnySchema).json_schema()
    kinds = {kind: union["$defs"].pop(model.__name__) for kind, model in KINDS.items()}
    properties: dict[str, Any] = dict(kinds["table"]["properties"])
    for kind, own in kinds.items():
        section = {"$ref": own["properties"][kind]["$ref"]}
        properties[kind] = {"anyOf": [section, {"type": "null"}], "default": None}
    properties["kind"] = {"enum": list(KINDS), "title": "Kind", "type": "string"}
    properties["preset"] = {
        "description": "A ready part of a schema for a known kind of source, or the path of a file with such a part, "
        "relative to this file; it is laid under this one.",
        "anyOf": [{"enum": list(presets())}, {"type": "string", "pattern": PATH}],
    }
    required = [key for key in kinds["table"]["required"] if key in Schema.model_fields and key != "kind"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cleanroom schema, version 1",
        "$defs": union["$defs"],
        "description": (Schema.__doc__ or "").splitlines()[0],
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": required,
        "oneOf": [*(_of_kind(kind, own, required) for kind, own in kinds.items()), _KIND_OF_PRESET],
    }


_KIND_OF_PRESET = {"required": ["preset"], "not": {"required": ["kind"]}}


def _of_kind(kind: str, own: dict[str, Any], known: list[str]) -> dict[str, Any]:
    """What a schema of this kind must have, itself or by its preset; sections of other kinds are null or left out."""
    needed = [key for key in own["required"] if key not in (*known, "kind")]
    properties = {"kind": {"const": kind}} | {other: {"type": "null"} for other in KINDS if other != kind}
    properties |= {key: {"type": "object"} for key in needed}
    branch = {"properties": properties, "required": ["kind"]}
    return branch | {"anyOf": [{"required": needed}, {"required": ["preset"]}]} if needed else branch
