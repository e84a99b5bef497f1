"""A certified data set: its entry in the certificate, and its memory-mapped rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.certificate.folder import locate
from pipeline.certificate.statement import Statement, datasets_of
from pipeline.errors import RefusedError
from pipeline.shards.files import Part, data_folder

PAGES = ".pages"
"""Suffix of the name of a data set of page images."""


@dataclass(frozen=True, slots=True)
class CertifiedSet:
    """One certified data set, as its certificate describes it; no shard is read for it.

    Attributes:
        clean: the output folder, absolute.
        name: of the data set in the folder.
        root: root digest of the folder.
        contract: the promises of the schema (kind, tokenizer, template, labels, limits, parameters …).
        fields: name, type and nullability of each column, in words.
        rows: number of samples.
        statistics: by column path (see ``pipeline.shards.statistics.ColumnStatistics``).
        lengths: number of samples by token length, in buckets that double ("64" holds 33 to 64).
        parts: the shards, in order.
        pages: the shards of the page images, in order; empty without page images.
    """

    clean: Path
    name: str
    root: str
    contract: Mapping[str, Any]
    fields: Sequence[Sequence[str]]
    rows: int
    statistics: Mapping[str, Mapping[str, Any]]
    lengths: Mapping[str, int]
    parts: tuple[Part, ...]
    pages: tuple[Part, ...]

    @property
    def kind(self) -> str:
        """The kind of the schema: layout, chat, table or tokens."""
        return str(self.contract["kind"])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(field[0] for field in self.fields)

    @property
    def limits(self) -> Mapping[str, Any]:
        """Limits of the model for which the samples are certified."""
        return dict(self.contract["limits"])

    @property
    def labels(self) -> tuple[str, ...]:
        """Label names in order of their ids."""
        return tuple(self.contract["labels"])

    @property
    def tokenizer(self) -> Mapping[str, Any]:
        """Class, size, digests and special ids of the tokenizer; empty without one."""
        return dict(self.contract["tokenizer"] or {})

    @property
    def pages_name(self) -> str:
        """Name of the data set of page images."""
        return f"{self.contract['name']}{PAGES}"

    def number(self, path: str, statistic: str) -> int | None:
        """An integer statistic of a column path; None where the certificate has none."""
        value = self.statistics.get(path, {}).get(statistic)
        return None if value is None or isinstance(value, str) else int(value)

    def paths(self) -> tuple[str, ...]:
        """The names of the shards relative to ``clean``."""
        return tuple(f"{data_folder(self.name)}/{part.name}" for part in self.parts)


def certified_set(clean: Path, statement: Statement, name: str) -> CertifiedSet:
    """One data set of a certificate."""
    entry, shards = statement.datasets[name], datasets_of(statement)
    contract = dict(statement.predicate["contracts"][entry["contract"]]) | {"name": entry["contract"]}
    pages = shards.get(f"{entry['contract']}{PAGES}", []) if not name.endswith(PAGES) else []
    return CertifiedSet(
        clean=clean,
        name=name,
        root=statement.root,
        contract=contract,
        fields=entry["fields"],
        rows=int(entry["rows"]),
        statistics=entry["statistics"],
        lengths=entry["lengths"],
        parts=tuple(shards[name]),
        pages=tuple(pages),
    )


def resolve_split(statement: Statement, clean: Path, split: str | None) -> str:
    """The name of the data set that a user selects: by its name, by its split, or the only one.

    Raises:
        RefusedError: no data set matches, or more than one.
    """
    names = [name for name in statement.datasets if not name.endswith(PAGES)]
    if split in statement.datasets:
        return str(split)
    found = names if split is None else [name for name in names if name.endswith(f".{split}")]
    if len(found) == 1:
        return found[0]
    raise RefusedError(
        "name one data set of the folder"
        if not found or split is None
        else "more than one data set is meant",
        where=str(clean),
        found=split or "none named",
        expected="one of " + ", ".join(names),
    )


Int64s = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


class RaggedColumn:
    """A ragged array: a list column whose rows are views into the memory map.

    Args:
        column: lists of numbers, or of fixed-size lists of numbers; no list is null.

    Attributes:
        lengths: length of each list, int64 [rows].
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._starts: list[npt.NDArray[np.int32]] = []
        self._values: list[Values] = []
        for chunk in column.chunks:
            self._starts.append(chunk.offsets.to_numpy())
            self._values.append(_flat(chunk.values))
        sizes = np.array([len(chunk) for chunk in column.chunks], np.int64)
        self._ends = np.cumsum(sizes)
        self._firsts = self._ends - sizes
        lengths = [np.diff(starts) for starts in self._starts]
        self.lengths: Int64s = np.concatenate([np.empty(0, np.int64), *lengths]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self, indices: Iterable[int] | Int64s) -> list[Values]:
        """The values of some rows, each a view into the memory map."""
        wanted = np.asarray(indices, np.int64)
        chunks = np.searchsorted(self._ends, wanted, side="right")
        return [
            self._values[chunk][starts[row] : starts[row + 1]]
            for chunk, row in zip(chunks.tolist(), (wanted - self._firsts[chunks]).tolist(), strict=True)
            for starts in (self._starts[chunk],)
        ]


def _flat(values: pa.Array) -> Values:
    if pa.types.is_fixed_size_list(values.type):
        size = values.type.list_size
        inner = values.values.slice(values.offset * size, len(values) * size)
        return inner.to_numpy(zero_copy_only=True).reshape(-1, size)  # type: ignore[no-any-return]
    return values.to_numpy(zero_copy_only=True)  # type: ignore[no-any-return]


def mapped(clean: Path, dataset: str, parts: Sequence[Part]) -> pa.Table:
    """The shards of a data set as one memory-mapped table.

    Raises:
        RefusedError: a shard has another number of rows than the certificate states (Arrow opens a stream that is cut
            between two batches).
        VerificationError: a shard is missing.
    """
    tables = []
    for part in parts:
        name = f"{data_folder(dataset)}/{part.name}"
        table = pa.ipc.open_stream(pa.memory_map(str(locate(clean, name)))).read_all()
        if table.num_rows != part.rows:
            raise RefusedError(
                "a shard has other rows than the certificate says",
                where=name,
                found=f"{table.num_rows} rows",
                expected=f"{part.rows} rows",
                remedy="put the original file back, or run the pipeline again with --force",
            )
        tables.append(table)
    return pa.concat_tables(tables)


class CertifiedRows:
    """A map-style data set (``len``, ``[i]``) of certified rows.

    It follows the protocol of ``torch.utils.data.Dataset`` without importing torch. A worker process maps the shards
    again; no row moves between processes.

    Args:
        certified: the data set.

    Attributes:
        certified: the data set.
        table: all rows, memory-mapped.
    """

    def __init__(self, certified: CertifiedSet) -> None:
        self.certified = certified
        self.table = mapped(certified.clean, certified.name, certified.parts)
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

    def __reduce__(self) -> tuple[type[CertifiedRows], tuple[CertifiedSet]]:
        return type(self), (self.certified,)

    def _row(self, index: int) -> dict[str, Any]:
        batch = bisect_right(self._ends, index)
        start = self._ends[batch - 1] if batch else 0
        row: dict[str, Any] = self._batches[batch].slice(index - start, 1).to_pylist()[0]
        return row
