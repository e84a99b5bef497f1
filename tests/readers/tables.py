"""Reading a text or bytes as a file, for tests of readers and of the cast stage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from pipeline.batch import Batch, Findings
from pipeline.fields import Field, FieldType, Kind
from pipeline.findings import FileNote
from pipeline.plan import inspect_file
from pipeline.readers.discover import Claim
from pipeline.readers.formats import Partition
from pipeline.schema.model import Schema, schema_of
from pipeline.stages.cast import Cast
from pipeline.worker import read_partition

TEXT = FieldType(Kind.TEXT)


def text_fields(*names: str, required: bool = True) -> tuple[Field, ...]:
    """Text fields read from columns or keys of the same name."""
    return tuple(Field(name, name, TEXT, required=required) for name in names)


def schema(policies: dict[str, str] | None = None, **reading: Any) -> Schema:
    """A table schema with a ``read:`` section."""
    return schema_of(
        {
            "version": 1,
            "name": "x",
            "kind": "table",
            "files": ("**",),
            "columns": {"id": {}},
            "table": {},
            "read": reading,
            "policies": policies or {},
        }
    )


@dataclass
class Result:
    """All that came out of one file."""

    batches: list[Batch] = field(default_factory=list)
    findings: list[Findings] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    partitions: tuple[Partition, ...] = ()
    notes: tuple[FileNote, ...] = ()

    @property
    def rows(self) -> list[int]:
        """Physical rows of all records."""
        return [row for batch in self.batches for row in batch.rows.tolist()]

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Cells of all records."""
        found = (batch.cells if batch.columns is None else batch.columns for batch in self.batches)
        return [row for cells in found if cells is not None for row in cells.to_dicts()]

    @property
    def raw(self) -> list[bytes | None]:
        """Raw bytes of all records."""
        found = (batch.raw for batch in self.batches)
        return [value for raw in found if raw is not None for value in raw.to_pylist()]

    @property
    def frame(self) -> list[dict[str, Any]]:
        """Typed values of all records."""
        return [row for batch in self.batches for row in batch.frame.to_dicts()]

    @property
    def hits(self) -> list[tuple[int, str, str, str, str]]:
        """(row, reason, path, found, expected) of every finding, sorted."""
        found = []
        for batch, findings in zip(self.batches, self.findings, strict=True):
            rows = dict(zip(batch.ids.tolist(), batch.rows.tolist(), strict=True))
            for item in findings.items:
                for i, record in enumerate(item.ids.tolist()):
                    texts = (
                        v if isinstance(v, str) else v[i] for v in (item.paths, item.found, item.expected)
                    )
                    found.append((rows[record], item.reason.slug, *texts))
        return sorted(found)

    @property
    def reasons(self) -> list[tuple[int, str]]:
        """(row, reason) of every finding, sorted."""
        return sorted({hit[:2] for hit in self.hits})

    @property
    def good(self) -> list[dict[str, Any]]:
        """Typed values of the records without a quarantine finding."""
        found = []
        for batch, findings in zip(self.batches, self.findings, strict=True):
            rejected = set(findings.rejected().tolist())
            values = batch.frame.to_dicts()
            found += [row for i, row in zip(batch.ids.tolist(), values, strict=True) if i not in rejected]
        return found


def read_bytes(
    folder: Path, data: bytes, name: str, fields: tuple[Field, ...], rules: Schema, *, cast: bool = False
) -> Result:
    """Write the bytes to a file, inspect it and read it whole; ``cast``: with typed frames."""
    path = folder / name
    path.write_bytes(data)
    format_ = rules.read.format
    if format_ == "auto":
        format_ = {"txt": "csv", "ndjson": "jsonl", "xlsx": "excel"}.get(path.suffix[1:], path.suffix[1:])  # type: ignore[assignment]
    return read_claim(Claim(0, name, path, format_, len(data)), fields, rules, cast=cast)


def read_claim(claim: Claim, fields: tuple[Field, ...], rules: Schema, *, cast: bool = False) -> Result:
    """Inspect and read one file whole."""
    inspection = inspect_file(claim, rules, fields)
    result = Result(partitions=inspection.partitions, notes=inspection.notes)
    stage = Cast(rules, fields)
    for partition in inspection.partitions:
        reading = read_partition(partition, claim.path, rules, fields)
        for batch, findings in reading:
            if cast:
                batch, more = stage(batch)
                findings.extend(more)
                for field_ in fields:
                    assert batch.frame.schema[field_.name] == field_.type.dtype()
                assert batch.frame.columns == [f.name for f in fields]
            assert batch.frame.height == (len(batch) if cast else batch.frame.height)
            result.batches.append(batch)
            result.findings.append(findings)
        result.dropped.update(reading.dropped)
    return result


def frame_of(values: dict[str, list[Any]], types: dict[str, Any] | None = None) -> pl.DataFrame:
    """A frame as a Parquet reader yields it."""
    return pl.DataFrame(values, schema_overrides=types)
