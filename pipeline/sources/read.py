"""Reading: the batches of one partition, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.reasons import Reason
from pipeline.sources.fault import fault
from pipeline.sources.partition import Partition, Reading

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.schema.model import Schema


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Read a partition of the file at ``path``.

    Yields ``(Batch, Findings)``; the ids of a batch count from 0 over the partition. A bad record is in its
    batch, with a finding. Raises ``FileFault``, at once or while iterating, when the file itself fails.
    """
    rows = _rows(partition, path, schema, fields)
    if schema.read.group_by is None:
        return rows
    from pipeline.sources.group import grouped

    return grouped(rows, partition, schema, fields)


def _rows(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    match partition.format:
        case "csv":
            from pipeline.sources import csv

            return csv.read(partition, path, schema, fields)
        case "lines":
            from pipeline.sources import lines

            return lines.read(partition, path, schema, fields)
        case "jsonl":
            from pipeline.sources import jsonl

            return jsonl.read(partition, path, schema, fields)
        case "json":
            from pipeline.sources import json_document

            return json_document.read(partition, path, schema, fields)
        case "excel":
            from pipeline.sources import excel

            return excel.read(partition, path, schema, fields)
        case "parquet" | "arrow":
            from pipeline.sources import columnar

            return columnar.read(partition, path, schema, fields)
        case _:
            raise fault(
                Reason.FILE_UNREADABLE, partition.source, f"the format {partition.format!r}", "a known format"
            )
