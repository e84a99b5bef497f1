"""Which fields the input data of a case has: a case need not name them, so the runner looks.

The pipeline itself never does this: what it is given is a schema that names every field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.tables import delimited, workbook

Record = dict[str, Any]
_ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of the inputs as far as they can be read at ease; ``tabular`` when they came from cells."""

    records: tuple[Record, ...]
    tabular: bool

    def keys(self) -> list[str]:
        """All top-level names, in order of appearance."""
        return list(dict.fromkeys(key for record in self.records for key in record))

    def values(self, key: str) -> list[Any]:
        """The values of one top-level name that are not null."""
        return [r[key] for r in self.records if r.get(key) is not None]

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of these names that a record has, whatever its case."""
        lowered = {key.lower(): key for key in reversed(self.keys())}
        return next((lowered[name] for name in names if name in lowered), None)


def peek(folder: Path, files: tuple[str, ...], wanted: Sequence[str] = ()) -> Sample:
    """Read what can be read of the data files; a table's header has the ``wanted`` names."""
    records: list[Record] = []
    tabular = False
    for name in files:
        path, suffix = folder / name, Path(name).suffix.lower()
        if Path(name).name.startswith(("~$", "._", ".")) or not path.is_file():
            continue
        if suffix in (".csv", ".tsv", ".txt"):
            found = list(delimited(decode(path.read_bytes()), wanted))
        elif suffix in (".xlsx", ".xlsm"):
            found = list(workbook(path, wanted))
        elif suffix in (".json", ".jsonl", ".ndjson"):
            found = list(_json(path))
        else:
            continue
        tabular = tabular or (suffix not in (".json", ".jsonl", ".ndjson") and bool(found))
        records.extend(found)
    return Sample(tuple(records), tabular)


def decode(content: bytes) -> str:
    """Text of a file in any of the encodings that occur."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace")
    for encoding in _ENCODINGS:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return content.decode("latin-1")


def _json(path: Path) -> Iterator[Record]:
    text = decode(path.read_bytes())
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record
        return
    if isinstance(whole, dict):
        path = _path_to_records(whole)
        yield from _at(whole, path) if path else [whole]
    elif isinstance(whole, list):
        yield from (record for record in whole if isinstance(record, dict))


def _path_to_records(whole: Record, depth: int = 3) -> str | None:
    """Dotted path of the list of records inside a document; None when the document is a record itself."""
    if _looks_like_record(whole):
        return None
    for key, value in whole.items():
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            return key
    for key, value in whole.items():
        if isinstance(value, dict) and depth and (below := _path_to_records(value, depth - 1)):
            return f"{key}.{below}"
    return None


def _at(whole: Record, path: str) -> list[Record]:
    value: Any = whole
    for part in path.split("."):
        value = value[part]
    return [item for item in value if isinstance(item, dict)]


def records_at(folder: Path, files: tuple[str, ...]) -> str | None:
    """JSON path of the list of records inside a document, e.g. ``$.data``; None when the document is the list."""
    for name in files:
        if Path(name).suffix.lower() != ".json":
            continue
        try:
            whole = json.loads(decode((folder / name).read_bytes()))
        except (ValueError, RecursionError):
            continue
        if isinstance(whole, dict) and (path := _path_to_records(whole)):
            return f"$.{path}"
    return None


def _looks_like_record(whole: Record) -> bool:
    """Whether a document is one record itself: it has an id, a page size or two lists side by side."""
    names = {key.lower() for key in whole}
    return bool(names & {"id", "width", "page", "words", "messages", "conversations", "input_ids"})


def cell(value: Any) -> Any:
    """A cell that holds a JSON list or object, decoded; anything else as it is."""
    if isinstance(value, str) and re.match(r"\s*[\[{]", value):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
