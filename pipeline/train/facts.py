"""What a certificate says of one data set: all that a training job may rely on without reading a shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.certificate.statement import Statement, datasets_of
from pipeline.errors import RefusedError
from pipeline.shards.part import Part, data_folder

PAGES = ".pages"
"""Ending of the name of a data set of page images."""


@dataclass(frozen=True, slots=True)
class Certified:
    """One certified data set.

    Attributes:
        clean: the output folder, absolute.
        name: of the data set in it.
        root: root digest of the whole folder.
        contract: what the schema promises (kind, tokenizer, template, labels, limits, parameters …).
        fields: name, type and nullability of each column, in words.
        rows: number of samples.
        statistics: by column path, see ``pipeline.shards.statistics.ColumnStatistics``.
        lengths: samples by token length, in buckets that double ("64" holds 33 to 64).
        parts: the shards, in order.
        pages: shards of the page images, in order; empty where there are none.
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
        """layout, chat, table or tokens."""
        return str(self.contract["kind"])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(field[0] for field in self.fields)

    @property
    def limits(self) -> Mapping[str, Any]:
        """Limits of the model that the samples were judged for."""
        return dict(self.contract["limits"])

    @property
    def labels(self) -> tuple[str, ...]:
        """Label names in order of their ids."""
        return tuple(self.contract["labels"])

    @property
    def tokenizer(self) -> Mapping[str, Any]:
        """Class, size, digests and special ids; empty where none was used."""
        return dict(self.contract["tokenizer"] or {})

    @property
    def pages_name(self) -> str:
        """Name of the data set of page images."""
        return f"{self.contract['name']}{PAGES}"

    def number(self, path: str, fact: str) -> int | None:
        """A whole-number statistic of a column path, None where it is not known."""
        value = self.statistics.get(path, {}).get(fact)
        return None if value is None or isinstance(value, str) else int(value)

    def paths(self) -> tuple[str, ...]:
        """The shards' names relative to ``clean``."""
        return tuple(f"{data_folder(self.name)}/{part.name}" for part in self.parts)


def certified(clean: Path, statement: Statement, name: str) -> Certified:
    """The facts of one data set of a certificate."""
    facts, shards = statement.datasets[name], datasets_of(statement)
    contract = dict(statement.predicate["contracts"][facts["contract"]]) | {"name": facts["contract"]}
    pages = shards.get(f"{facts['contract']}{PAGES}", []) if not name.endswith(PAGES) else []
    return Certified(
        clean=clean,
        name=name,
        root=statement.root,
        contract=contract,
        fields=facts["fields"],
        rows=int(facts["rows"]),
        statistics=facts["statistics"],
        lengths=facts["lengths"],
        parts=tuple(shards[name]),
        pages=tuple(pages),
    )


def resolve(statement: Statement, clean: Path, split: str | None) -> str:
    """The data set that a user means: by its name, by its split alone, or the only one there is.

    Raises:
        RefusedError: there is none, or more than one could be meant.
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
