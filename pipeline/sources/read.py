"""Reading: the batches of one partition, whatever its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.sources.partition import Partition, Reading, reader

if TYPE_CHECKING:
    from pipeline.fields import Field
    from pipeline.schema.model import Schema


def read(partition: Partition, path: Path, schema: Schema, fields: Sequence[Field]) -> Reading:
    """Read a partition of the file at ``path``.

    Yields ``(Batch, Findings)``; the ids of a batch count from 0 over the partition. A bad record is in its
    batch, with a finding. Raises ``FileFault``, at once or while iterating, when the file itself fails.
    """
    rows = reader(partition.format, partition.source).read(partition, path, schema, fields)
    if schema.read.group_by is None:
        return rows
    from pipeline.sources.group import grouped

    return grouped(rows, partition, schema, fields)
