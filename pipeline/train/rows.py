"""Certified shards as rows: memory-mapped, never copied, a map-style data set for torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.certificate.folder import locate
from pipeline.errors import RefusedError
from pipeline.shards.part import Part, data_folder
from pipeline.train.facts import Certified


def mapped(clean: Path, dataset: str, parts: Sequence[Part]) -> pa.Table:
    """The shards of a data set one after the other, their bytes mapped from the disk.

    Raises:
        RefusedError: a shard has other rows than the certificate says (a stream cut at a batch border opens).
        VerificationError: a shard is not there.
    """
    tables = []
    for part in parts:
        name = f"{data_folder(dataset)}/{part.name}"
        table = pa.ipc.open_stream(pa.memory_map(str(locate(clean, name)))).read_all()
        if table.num_rows != part.rows:
            raise RefusedError(
                "a shard has other rows than the certificate says",
                where=name, found=f"{table.num_rows} rows", expected=f"{part.rows} rows",
                remedy="put the original file back, or run the pipeline again with --force",
            )  # fmt: skip
        tables.append(table)
    return pa.concat_tables(tables)


class CertifiedRows:
    """A map-style data set (``len``, ``[i]``) of certified rows.

    It follows the protocol of ``torch.utils.data.Dataset`` without importing torch. A worker process gets the
    place of the shards and maps them again; no row ever travels between processes.

    Args:
        facts: the data set.

    Attributes:
        certified: the same facts.
        table: all rows, memory-mapped.
    """

    def __init__(self, facts: Certified) -> None:
        self.certified = facts
        self.table = mapped(facts.clean, facts.name, facts.parts)
        self._batches = self.table.to_batches()
        self._ends: list[int] = []
        for batch in self._batches:
            self._ends.append((self._ends[-1] if self._ends else 0) + batch.num_rows)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(index)
        return self._row(index % n)

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        return [self[int(index)] for index in indices]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._row, range(len(self)))

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.column_names)

    def __reduce__(self) -> tuple[type[CertifiedRows], tuple[Certified]]:
        return type(self), (self.certified,)

    def _row(self, index: int) -> dict[str, Any]:
        place = bisect_right(self._ends, index)
        start = self._ends[place - 1] if place else 0
        row: dict[str, Any] = self._batches[place].slice(index - start, 1).to_pylist()[0]
        return row
