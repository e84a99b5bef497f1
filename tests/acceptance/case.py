"""One case: a folder with input files and what is expected of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


class Untranslated(Exception):
    """The case says something that has no translation into the schema language; the text says what."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case folder as it stands: nothing outside of it is read, but for tokenizers it names."""

    folder: Path
    id: str
    expect: str
    value: Any
    assumed: dict[str, Any]
    files: tuple[str, ...]

    @classmethod
    def load(cls, folder: Path) -> Case:
        """Read ``expected.json``."""
        content = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
        assumed = content.get("schema_assumed") or {}
        files = content.get("files") or sorted(p.name for p in folder.iterdir() if p.name != "expected.json")
        return cls(
            folder=folder,
            id=content.get("id", folder.name),
            expect=content["expect"],
            value=content.get("value"),
            assumed=assumed,
            files=tuple(files),
        )

    @property
    def modality(self) -> str:
        """``layout``, ``layout+image``, ``chat``, ``table``, ``tokens``, or ``gate``."""
        if self.assumed.get("gate"):
            return "gate"
        modality = self.assumed.get("modality", "table")
        if modality not in ("layout", "layout+image", "chat", "table", "tokens"):
            raise Untranslated(f"modality {modality!r}")
        return str(modality)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Files for the raw folder: all but those of a tokenizer the case brings along."""
        own = "tokenizer_dir" in self.assumed
        return tuple(f for f in self.files if not (own and Path(f).name in TOKENIZER_FILES))

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of fields that the case gives, with those that ids usually have."""
        assumed = self.assumed
        columns = assumed.get("columns") or {}
        chat = assumed.get("modality") == "chat" and isinstance(columns, dict)
        given = [*columns, *(columns.values() if chat else ())]
        for key in ("group_by", "text_column", "source_column", "column", "page_size_fields", "optional"):
            value = assumed.get(key)
            given += value if isinstance(value, list) else [value]
        return tuple(dict.fromkeys([*(name for name in given if isinstance(name, str)), "id"]))

    def named_rows(self) -> dict[str, str]:
        """Verdict by record id, from ``rows`` and from ids that stand beside it."""
        value = self.value if isinstance(self.value, dict) else {}
        rows = dict(value["rows"]) if isinstance(value.get("rows"), dict) else {}
        rows.update({k: v for k, v in value.items() if isinstance(v, str) and is_verdict(v)})
        return rows


VERDICTS = frozenset({"accept", "repair", "flag", "quarantine", "error", "skip", "mixed", "invariant"})


def is_verdict(text: str) -> bool:
    """Whether a text is one verdict, or several joined by ``_or_``."""
    return all(part in VERDICTS for part in text.split("_or_"))


@dataclass(slots=True)
class Report:
    """What a comparison found: mistakes, and words of the case that nothing checked."""

    mistakes: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fail(self, text: str) -> None:
        """Record a mistake."""
        self.mistakes.append(text)

    def expect(self, condition: bool, text: str) -> bool:
        """Record a mistake unless the condition holds."""
        if not condition:
            self.fail(text)
        return condition
