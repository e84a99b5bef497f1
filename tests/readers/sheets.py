"""Reading a workbook from end to end, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FileFault, FileNote
from pipeline.readers import excel
from pipeline.readers.discover import Claim
from pipeline.schema.model import Schema, schema_of
from tests.readers.handmade import Tab, table, write

HEAD = ("id", "text")


@dataclass
class Sheet:
    """What was read of one sheet: (row, cells by header) and (slug, policy, column, row, found), in order."""

    name: str | None
    records: list[tuple[int, dict[str, str | None]]] = field(default_factory=list)
    findings: list[tuple[str, str, str, int, str]] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass
class Book:
    """What was read of a workbook."""

    sheets: list[Sheet]
    notes: tuple[FileNote, ...]

    @property
    def rows(self) -> list[tuple[int, dict[str, str | None]]]:
        """Records of the only sheet."""
        (sheet,) = self.sheets
        return sheet.records

    @property
    def found(self) -> list[tuple[str, str, int]]:
        """(slug, column, row) of the only sheet."""
        (sheet,) = self.sheets
        return [(slug, column, row) for slug, _, column, row, _ in sheet.findings]


def schema(policies: dict[str, str] | None = None, **read: Any) -> Schema:
    """A schema of a table with the given ``read:`` section."""
    return schema_of(
        {
            "version": 1,
            "name": "sheet",
            "kind": "table",
            "files": ("**",),
            "read": read,
            "policies": policies or {},
            "table": {},
        }
    )


def fields(*names: str, optional: tuple[str, ...] = ()) -> tuple[Field, ...]:
    """Text fields named like their columns."""
    text = FieldType(Kind.TEXT)
    return (
        *(Field(name, name, text) for name in names),
        *(Field(name, name, text, required=False) for name in optional),
    )


def read(
    path: Path, *names: str, optional: tuple[str, ...] = (), schema_: Schema | None = None, **options: Any
) -> Book:
    """Inspect and read a workbook with the given required and optional columns."""
    schema_ = schema_ or schema(**options)
    columns = fields(*names, optional=optional)
    claim = Claim(0, path.name, path, "excel", path.stat().st_size)
    inspection = excel.inspect(claim, schema_, columns)
    sheets = []
    for partition in inspection.partitions:
        sheet = Sheet(partition.sheet)
        reading = excel.read(partition, path, schema_, columns)
        for batch, findings in reading:
            assert batch.cells is not None
            rows = dict(zip(batch.ids.tolist(), batch.rows.tolist(), strict=True))
            sheet.records += zip(rows.values(), batch.cells.to_dicts(), strict=True)
            for item in findings.items:
                found = [item.found] * len(item.ids) if isinstance(item.found, str) else item.found
                sheet.findings += [
                    (item.reason.slug, item.policy.value, item.column, rows[i], text)
                    for i, text in zip(item.ids.tolist(), found, strict=True)
                ]
        sheet.dropped = dict(reading.dropped)
        sheets.append(sheet)
    return Book(sheets, inspection.notes)


def one(folder: Path, *rows: str, **options: Any) -> Book:
    """A workbook with the header ``id, text`` in row 1 and the given rows below it, read."""
    return read(write(folder / "book.xlsx", Tab("data", table(HEAD) + "".join(rows))), *HEAD, **options)


def fault(path: Path, *names: str, **options: Any) -> str:
    """Slug of the fault that reading the workbook raises."""
    with pytest.raises(FileFault) as caught:
        read(path, *(names or HEAD), **options)
    return caught.value.note.reason.slug
