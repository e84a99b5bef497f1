"""What came out of a run: certified samples and quarantined records, read through the certificate alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

Row = dict[str, Any]
Place = tuple[str, str, int]
"""Source, sheet and row of a record."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the input, wherever it went.

    ``samples`` are its certified rows (one a window); ``refusal`` its quarantine row.
    """

    place: Place
    samples: tuple[Row, ...] = ()
    refusal: Row | None = None

    @property
    def certified(self) -> bool:
        """Whether it may be trained on."""
        return bool(self.samples)

    @property
    def reasons(self) -> list[str]:
        """Codes of all its reasons."""
        return [reason["reason"] for reason in self.refusal["reasons"]] if self.refusal else []

    @property
    def details(self) -> str:
        """All that was found and expected."""
        if self.refusal is None:
            return ""
        return " | ".join(
            f"{r['column']} {r['path']} {r['found']} {r['expected']}" for r in self.refusal["reasons"]
        )

    def identity(self, name: str | None, known: list[str]) -> str | None:
        """Its id: the certified column, the original cell, the raw JSON, or the id of the case that stands in it."""
        if name is not None:
            if self.samples:
                return _text(self.samples[0].get(name))
            for held in (_json(self.refusal["cells"]), _json(self.refusal["raw"])):
                if isinstance(held, dict) and held.get(name) is not None:
                    return _text(_of_rows(held[name]))
        text = f"{self.refusal['cells'] or ''} {_decoded(self.refusal['raw'])}" if self.refusal else ""
        return next((one for one in sorted(known, key=len, reverse=True) if one in text), None)


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, (dict, list)) else str(value)


def _of_rows(value: Any) -> Any:
    """The one value that the rows of a group have; a value that is no list is itself."""
    alike = isinstance(value, list) and value and all(one == value[0] for one in value)
    return value[0] if alike else value


def _decoded(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode("utf-8", "replace")


def _json(value: str | bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None


@dataclass
class Outcome:
    """The output folder, or what is left of a refused run."""

    clean: Path
    predicate: dict[str, Any] = field(default_factory=dict)
    root: str = ""
    samples: list[Row] = field(default_factory=list)
    quarantine: list[Row] = field(default_factory=list)
    pages: dict[str, Row] = field(default_factory=dict)
    shards: list[tuple[str, pa.Table, int]] = field(default_factory=list)

    @classmethod
    def read(cls, clean: Path) -> Outcome:
        """Read everything the certificate names; without one, the quarantine of a refused run."""
        outcome = cls(clean)
        certificate = clean / "certificate.json"
        if not certificate.is_file():
            for path in sorted((clean / ".refused").glob("quarantine/*/*.arrow")):
                outcome.quarantine += _table(path).to_pylist()
            return outcome
        statement = json.loads(certificate.read_bytes())
        outcome.root = statement["subject"][0]["digest"]["sha256"]
        outcome.predicate = statement["predicate"]
        for entry in outcome.predicate["files"]:
            outcome._take(entry["folder"], clean / entry["folder"] / entry["name"])
        return outcome

    def _take(self, folder: str, path: Path) -> None:
        table = _table(path)
        if folder.startswith("quarantine/"):
            self.quarantine += table.to_pylist()
        elif ".pages" in folder:
            self.pages.update({row["page_id"]: row for row in table.to_pylist()})
        else:
            self.shards.append((path.name, table, path.stat().st_size))
            self.samples += table.to_pylist()

    @cached_property
    def records(self) -> list[Record]:
        """Every record, in the order of the input."""
        found: dict[Place, list[Row]] = {}
        for row in self.samples:
            found.setdefault(_place(row), []).append(row)
        records = [Record(place, tuple(rows)) for place, rows in found.items()]
        records += [Record(_place(row), (), row) for row in self.quarantine]
        return sorted(records, key=lambda record: record.place)

    @property
    def certified(self) -> list[Record]:
        """The records that came out certified."""
        return [record for record in self.records if record.certified]

    @property
    def quarantined(self) -> list[Record]:
        """The records that were set aside."""
        return [record for record in self.records if not record.certified]


def _table(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_stream(source).read_all()


def _place(row: Row) -> Place:
    return row["source"], row["sheet"] or "", row["row"]
