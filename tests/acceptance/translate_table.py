"""A table's ``schema_assumed`` as a schema: column types and constraints given in words."""

from __future__ import annotations

import re
from typing import Any

from tests.acceptance.case import Case, Untranslated
from tests.acceptance.peek import Sample

_TYPES = {
    "str": "text", "string": "text", "text": "text", "int": "integer", "integer": "integer", "float": "number",
    "number": "number", "double": "number", "bool": "boolean", "boolean": "boolean", "date": "date",
    "datetime": "datetime", "timestamp": "datetime", "json": "json", "object": "json", "dict": "json",
    "numeric": "number", "decimal": "number", "real": "number", "flag": "boolean", "enum": "text", "category": "text",
    "categorical": "text", "url": "text", "uuid": "text",
}  # fmt: skip
_TEXTUAL = {"blank", "required", "one", "in", "characters", "chars"}
"""Words that are said of texts where no type is named: ``non-blank``, ``one of [pos, neg]``."""


def translate_table(case: Case, sample: Sample) -> dict[str, Any]:
    """The ``columns``, ``table`` and ``read`` sections."""
    assumed = case.assumed
    words = assumed.get("columns") or dict.fromkeys(sample.keys(), "str")
    columns = {name: column(kind) for name, kind in words.items()}
    text = assumed.get("text_column") or ("text" if "text" in columns else None)
    for name in assumed.get("optional") or ():
        if name in columns:
            columns[name]["required"] = False
            if columns[name]["type"] == "text":
                columns[name]["blank"] = "allow"
    if isinstance(rule := assumed.get("text"), str) and text in columns:
        columns[text].update(column(rule))
    label = next((name for name in ("label", "labels", "class", "category") if name in columns), None)
    if (names := assumed.get("label_list")) and label:
        columns[label]["allowed"] = list(names)
    table: dict[str, Any] = {}
    if text and ("text_column" in assumed or "max_tokens" in assumed or "tokenizer" in assumed):
        table = {"text": text, "max_tokens": assumed.get("max_tokens", 512)}
    if label and columns[label].get("allowed"):
        table["label"] = label
    decimal = assumed.get("decimal", "auto")
    read = {"decimal": {"comma": ",", "point": "."}.get(decimal, decimal), "header": "find"}
    return {"kind": "table", "columns": columns, "table": table, "read": read}


def column(words: str | dict[str, Any] | list[Any]) -> dict[str, Any]:
    """One column from its description, e.g. ``str in [pos,neg]`` or ``list of {url: str, alt: str optional}``."""
    if isinstance(words, dict):
        return {"type": "struct", "fields": {k: _item(v) for k, v in words.items()}}
    if isinstance(words, list):
        return {"type": "text", "allowed": [str(w) for w in words]}
    text = " ".join(words.split())
    if match := re.match(
        r"(?:optional )?(?:list<(.+)>|list\[(.+)\]|list of (.+?))(\s+optional|, optional)?$", text
    ):
        inner = next(part for part in match.groups()[:3] if part)
        found: dict[str, Any] = {"type": "list", "items": _item(inner)}
    elif match := re.match(r"(?:struct\s*)?\{(.+)\}(.*)$", text):
        found = {"type": "struct", "fields": _members(match.group(1))}
    else:
        return _scalar(text)
    if re.search(r"\boptional\b", text.replace(inner, "") if found["type"] == "list" else match.group(2)):
        found["required"] = False
    return found


def _item(words: str) -> dict[str, Any]:
    """A list element or a struct member: types only, no constraints."""
    found = column(words)
    return {k: v for k, v in found.items() if k in ("type", "required", "items", "fields")}


def _members(text: str) -> dict[str, Any]:
    """``url: str, width: int, alt: str optional`` → members; commas inside brackets do not split."""
    parts = re.findall(r"(?:[^,{}\[\]<>]|\{[^{}]*\}|\[[^\[\]]*\]|<[^<>]*>)+", text)
    pairs = [part.split(":", 1) for part in parts if part.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise Untranslated(f"column description {{{text}}}")
    return {name.strip(): _item(words.strip()) for name, words in pairs}


def _scalar(text: str) -> dict[str, Any]:
    words = re.findall(r"[a-z]+", text.lower())
    kind = next((_TYPES[word] for word in words if word in _TYPES), None)
    if kind is None and _TEXTUAL & set(words):
        kind = "text"
    if kind is None:
        raise Untranslated(f"column description {text!r}")
    found: dict[str, Any] = {"type": kind}
    if "optional" in words or "nullable" in words or re.search(r"or null|may be (blank|missing|null)", text):
        found["required"] = False
        if kind == "text":
            found["blank"] = "allow"
    if kind == "text" and re.search(r"blank allowed|may be blank|possibly empty", text):
        found["blank"] = "allow"
    if match := re.search(r"(?:in|one of)\s*[\[({]([^\])}]*)[\])}]", text):
        values = [value.strip().strip("'\"") for value in match.group(1).split(",")]
        if kind in ("integer", "number") and len(values) == 2 and "one of" not in text:
            found["min"], found["max"] = float(values[0]), float(values[1])
        elif kind == "integer":
            found["allowed"] = [int(value) for value in values]
        else:
            found["allowed"] = values
    if kind in ("integer", "number"):
        _bounds(text, found)
    else:
        _lengths(text, found)
    return found


def _bounds(text: str, found: dict[str, Any]) -> None:
    number = r"(-?\d+(?:\.\d+)?)"
    if match := re.search(rf"{number}\s*(?:\.\.+|–|to)\s*{number}", text):
        found["min"], found["max"] = float(match.group(1)), float(match.group(2))
    if match := re.search(rf"(?:>=|≥|at least|min(?:imum)?)\s*{number}", text):
        found["min"] = float(match.group(1))
    if match := re.search(rf"(?:<=|≤|at most|max(?:imum)?)\s*{number}", text):
        found["max"] = float(match.group(1))
    if "non-negative" in text:
        found["min"] = 0.0
    elif "positive" in text:
        found["min"] = 1.0 if found["type"] == "integer" else 5e-324


def _lengths(text: str, found: dict[str, Any]) -> None:
    if match := re.search(r"(?:at most|max(?:imum)?|up to|<=|≤)\s*([\d,]+)\s*(?:char|letter)", text):
        found["max_characters"] = int(match.group(1).replace(",", ""))
    if match := re.search(r"(?:at least|min(?:imum)?|>=|≥)\s*([\d,]+)\s*(?:char|letter)", text):
        found["min_characters"] = int(match.group(1).replace(",", ""))
    if match := re.search(r"(?:matching|matches|pattern)\s*:?\s*/?(\S+?)/?$", text):
        found["pattern"] = match.group(1)
