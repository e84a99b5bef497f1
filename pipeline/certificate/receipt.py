"""The receipt of one partition: its counts and its shards.

``pipeline.worker.process_partition`` writes the shards of a partition below the staging folder and returns the
receipt, the only thing that an engine moves between processes. A certificate holds every receipt. A later run that
finds a receipt with the same memo key reuses the receipt and its shards and does not read the source again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pipeline.certificate.digest import digest_of
from pipeline.shards.files import Part, data_folder, quarantine_folder
from pipeline.shards.statistics import merge

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def statistics_of_parts(parts: Iterable[Part]) -> dict[str, dict[str, Any]]:
    """Statistics by column path over all shards of a data set, as plain JSON values."""
    merged = merge(part.statistics for part in parts)
    return {path: statistics.to_json() for path, statistics in sorted(merged.items())}


def histogram(lengths: npt.NDArray[np.integer[Any]]) -> dict[str, int]:
    """Number of samples by length, in buckets that double: the key is a bucket's upper end ("64" holds 33 to 64)."""
    if not len(lengths):
        return {}
    import numpy as np

    powers = np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    buckets, counts = np.unique(powers, return_counts=True)
    return {str(1 << int(power)): int(count) for power, count in zip(buckets, counts, strict=True)}


def total_histogram(histograms: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several histograms, in order of the buckets."""
    return dict(sorted(total(histograms).items(), key=lambda item: int(item[0])))


@dataclass(frozen=True, slots=True, order=True)
class Repeat:
    """A record that the second pass removes because another record has the same content.

    Attributes:
        row: row number of the record in its file or sheet.
        reason: slug of the reason.
        first: place of the record that stays.
        content: digest of the record's content (``content_id``).
        split: the split that the record would belong to; "" without splits.
    """

    row: int
    reason: str
    first: str
    content: str
    split: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The counts and shards of one partition of one source.

    Attributes:
        memo: key of everything that decides the bytes made of this source (``memo_key``); the same for all its
            partitions.
        contract: name of the schema that reads the source.
        source, sha256, bytes: path relative to the raw folder, digest and size of the whole file.
        sheet, chunk: sheet name, and ordinal of the partition within the source, which decides the order of shards.
        rows_read: records read; equals ``certified + quarantined + sum(dropped)``.
        certified, quarantined: number of records in the certified shards and in the quarantine.
        dropped: number of records that are counted and stored nowhere (blank rows …), by name; no name has a zero.
        reasons, repairs, flags: number of quarantined, repaired and flagged records by reason slug.
        parts: certified shards by data set (samples, not records; pages have their own data set).
        quarantine: quarantine shards; their rows add up to ``quarantined``.
        lengths: number of samples by token length, by data set (see ``histogram``).
        refers: sha256 of every other file that the records refer to (page images), by path in the raw folder; "" for a
            file that does not exist. A receipt is reused only while these stay the same.
        repeats: records in the quarantine because another record has the same content.
    """

    memo: str
    contract: str
    source: str
    sha256: str
    bytes: int
    sheet: str | None = None
    chunk: int = 0
    rows_read: int = 0
    certified: int = 0
    quarantined: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)
    flags: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    quarantine: tuple[Part, ...] = ()
    lengths: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    refers: Mapping[str, str] = field(default_factory=dict)
    repeats: tuple[Repeat, ...] = ()

    @property
    def order(self) -> tuple[str, str, int]:
        """Sort key among all receipts: schema, source and partition, never the time of completion."""
        return self.contract, self.source, self.chunk

    def files(self) -> dict[str, Part]:
        """Every shard by its name relative to the output folder."""
        certified = {f"{data_folder(name)}/{p.name}": p for name, parts in self.parts.items() for p in parts}
        return certified | {f"{quarantine_folder(self.contract)}/{p.name}": p for p in self.quarantine}

    def imbalance(self) -> str:
        """The counts that do not add up, in words; "" when all do."""
        kept = self.certified + self.quarantined + sum(self.dropped.values())
        if self.rows_read != kept:
            return (
                f"{self.rows_read} records read, but {self.certified} certified + {self.quarantined} quarantined"
                f" + {sum(self.dropped.values())} dropped"
            )
        if (rows := sum(part.rows for part in self.quarantine)) != self.quarantined:
            return f"{self.quarantined} records quarantined, but {rows} rows in the quarantine shards"
        return ""

    def to_json(self) -> dict[str, Any]:
        """The receipt as plain JSON values; shards by name only, because the certificate lists all files."""
        return {
            "memo": self.memo,
            "contract": self.contract,
            "source": self.source,
            "sha256": self.sha256,
            "bytes": self.bytes,
            "sheet": self.sheet,
            "chunk": self.chunk,
            "rows_read": self.rows_read,
            "certified": self.certified,
            "quarantined": self.quarantined,
            "dropped": dict(self.dropped),
            "reasons": dict(self.reasons),
            "repairs": dict(self.repairs),
            "flags": dict(self.flags),
            "parts": {name: [part.name for part in parts] for name, parts in self.parts.items()},
            "quarantine": [part.name for part in self.quarantine],
            "lengths": {name: dict(counts) for name, counts in self.lengths.items()},
            "refers": dict(self.refers),
            "repeats": [[r.row, r.reason, r.first, r.content, r.split] for r in self.repeats],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], files: Mapping[str, Part]) -> Receipt:
        """The receipt of plain JSON values, with its shards from the file list; raises ``KeyError`` for a missing
        one."""
        values = {f.name: value[f.name] for f in fields(cls)}
        values["parts"] = {
            name: tuple(files[f"{data_folder(name)}/{part}"] for part in parts)
            for name, parts in value["parts"].items()
        }
        values["repeats"] = tuple(Repeat(*repeat) for repeat in value["repeats"])
        folder = quarantine_folder(value["contract"])
        values["quarantine"] = tuple(files[f"{folder}/{part}"] for part in value["quarantine"])
        return cls(**values)


def memo_key(source: str, sha256: str, **decides: Any) -> str:
    """Digest of everything that decides the bytes made of a source.

    Args:
        source, sha256: path of the file (every sample carries it) and digest of its content.
        decides: digests of the contract, tokenizer, template and parameters, the semantics number and the versions of
            libraries that can change bytes.
    """
    return digest_of({"source": source, "sha256": sha256, **decides})


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of counts by name, sorted by name."""
    sums: dict[str, int] = {}
    for part in counts:
        for name, count in part.items():
            sums[name] = sums.get(name, 0) + count
    return dict(sorted(sums.items()))
