"""Inspection: format, encoding, delimiter, header, sheets and ranges of one file, proven before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.reasons import Reason
from pipeline.sources.fault import fault
from pipeline.sources.partition import Inspection

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.schema.model import Schema
    from pipeline.sources.discover import Claim


def inspect(claim: Claim, schema: Schema, fields: Sequence[Field]) -> Inspection:
    """Prove what a claimed file is and cut it into partitions.

    The cuts depend on the bytes of the file alone. Raises ``FileFault`` for a file that cannot be read.
    """
    limit = schema.read.limits.file_mb
    if claim.bytes > limit * 2**20:
        raise fault(Reason.FILE_LIMIT, claim.source, f"{-(-claim.bytes // 2**20)} MB", f"{limit} MB")
    match claim.format:
        case "csv" | "tsv" | "lines":
            from pipeline.sources import csv

            return csv.inspect(claim, schema, fields)
        case "jsonl":
            from pipeline.sources import jsonl

            return jsonl.inspect(claim, schema, fields)
        case "json":
            from pipeline.sources import json_document

            return json_document.inspect(claim, schema, fields)
        case "excel":
            from pipeline.sources import excel

            return excel.inspect(claim, schema, fields)
        case "parquet" | "arrow":
            from pipeline.sources import columnar

            return columnar.inspect(claim, schema, fields)
        case _:
            raise fault(
                Reason.FILE_UNREADABLE, claim.source, f"the format {claim.format!r}", "a known format"
            )
