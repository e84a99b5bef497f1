"""One shard file as a fact, and the place of each data set's files in the output folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.shards.column import ColumnStatistics, from_json

PART_NAME = re.compile(r"part-[0-9a-f]{20}\.arrow")
"""Every shard is named after the first 20 hexadecimal digits of its sha256."""
QUARANTINE = "quarantine"
PLACE = re.compile(r"quarantine/\w+|\w+(\.\w+)*/data")
"""Every folder of shards, relative to the output folder: what is read from a certificate leads nowhere else."""


@dataclass(frozen=True, slots=True)
class Part:
    """A shard: an uncompressed Arrow IPC stream, named after its content.

    Attributes:
        name: ``part-<first 20 digits of sha256>.arrow``.
        sha256: of the whole file, hexadecimal.
        bytes, rows: size of the file and number of its rows.
        statistics: by column, "column[]" for the values of a list, "column[].member" for members of structs.
        mtime_ns: of the file when it was hashed, known to the run that wrote it alone; 0 otherwise.
    """

    name: str
    sha256: str
    bytes: int
    rows: int
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    mtime_ns: int = field(default=0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "bytes": self.bytes,
            "rows": self.rows,
            "statistics": {name: column.to_json() for name, column in sorted(self.statistics.items())},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Part:
        """The part again; raises ``KeyError``, ``TypeError`` or ``ValueError`` where a fact is missing."""
        name, sha256 = str(value["name"]), str(value["sha256"])
        if name != part_name(sha256) or not PART_NAME.fullmatch(name):
            raise ValueError(f"part name {name!r} is not made from its digest")
        statistics = {str(k): from_json(v) for k, v in value["statistics"].items()}
        return cls(name, sha256, int(value["bytes"]), int(value["rows"]), statistics)


def part_name(sha256: str) -> str:
    """File name of a shard with this digest."""
    return f"part-{sha256[:20]}.arrow"


def data_folder(dataset: str) -> str:
    """Where the certified shards of a data set lie, relative to the output folder; nothing but shards is there."""
    return f"{dataset}/data"


def quarantine_folder(dataset: str) -> str:
    """Where the quarantine shards of a schema lie, relative to the output folder."""
    return f"{QUARANTINE}/{dataset}"
