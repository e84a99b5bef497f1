"""Inspection: format, encoding, delimiter, header, sheets and ranges of one file, proven before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.reasons import Reason
from pipeline.sources.fault import fault
from pipeline.sources.partition import Inspection, reader

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
    delimited = claim.format in ("csv", "tsv")
    name = "lines" if delimited and schema.read.line_format is not None else claim.format
    name = "reshaped" if schema.read.reshape else name
    try:
        found = reader(name, claim.source).inspect(claim, schema, fields)
        if schema.read.group_by is None:
            return found
        from pipeline.sources.group import plan

        return plan(found, claim.path, schema, fields)
    except OSError as error:
        raise fault(
            Reason.FILE_UNREADABLE, claim.source, error.strerror or type(error).__name__, name
        ) from None
