"""What one partition brought: the only thing that engines move, the memory that makes a rerun cheap, and sums
over many.

``process_partition(partition, plan) -> Receipt`` writes its own shards below ``folder.staging`` (into
``data_folder(dataset)`` and ``quarantine_folder(contract)``, see ``pipeline.shards.files``) and returns their facts.
A certificate holds every receipt. A later run that finds a receipt with its memo key takes the receipt and its
shards over and does not read the source again.
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


# Statistics of a whole data set, from those of its shards.


def statistics_of_parts(parts: Iterable[Part]) -> dict[str, dict[str, Any]]:
    """Statistics by column path over all shards of a data set, as plain JSON values."""
    whole = merge(part.statistics for part in parts)
    return {path: facts.to_json() for path, facts in sorted(whole.items())}


def histogram(lengths: npt.NDArray[np.integer[Any]]) -> dict[str, int]:
    """Samples by length, in buckets that double: the key is the bucket's upper end ("64" holds 33 to 64)."""
    if not len(lengths):
        return {}
    import numpy as np

    powers = np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    buckets, counts = np.unique(powers, return_counts=True)
    return {str(1 << int(power)): int(count) for power, count in zip(buckets, counts, strict=True)}


def total_histogram(histograms: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Several histograms together, in order of their buckets."""
    whole: dict[str, int] = {}
    for counts in histograms:
        for bucket, count in counts.items():
            whole[bucket] = whole.get(bucket, 0) + count
    return dict(sorted(whole.items(), key=lambda item: int(item[0])))


# What one partition brought: the only thing that engines move, and the memory that makes a rerun cheap.


@dataclass(frozen=True, slots=True, order=True)
class Repeat:
    """A record that the second pass took out: its content stands elsewhere.

    Attributes:
        row: of the record within its partition.
        reason: slug.
        first: place of the record that stays.
        content: digest of what the record teaches (``content_id``).
        split: the split it would be in, "" without splits.
    """

    row: int
    reason: str
    first: str
    content: str
    split: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The accounts of one partition of one source.

    Attributes:
        memo: key of all that decides the bytes made of this source (``memo_key``); equal for all partitions of it.
        contract: name of the schema that read it.
        source, sha256, bytes: path relative to the raw folder, digest and size of the whole file.
        sheet, chunk: sheet name, and the partition's ordinal within the source: its place in the order of shards.
        rows_read: records read; equals ``certified + quarantined + sum(dropped)``.
        certified, quarantined: records in the certified shards, and in the quarantine.
        dropped: records counted by name and kept nowhere (blank rows …); a name without a record is left out.
        reasons, repairs, flags: records by reason slug and what became of them.
        parts: certified shards by data set (samples, not records; pages have their own data set).
        quarantine: quarantine shards; their rows add up to ``quarantined``.
        lengths: samples by token length, by data set: see ``statistics.histogram``.
        refers: sha256 of each other file that the records name (page images) by its path in the raw folder, "" where
            there is none: a receipt is taken over only while they are the same.
        repeats: records in the quarantine because their content stands elsewhere.
        noted: digest of the records that only carry a note of it (``duplicates.NoteTask``), "" where there are none.
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
    noted: str = ""

    @property
    def order(self) -> tuple[str, str, int]:
        """Place among all receipts: by schema, source and partition, never by completion."""
        return self.contract, self.source, self.chunk

    def files(self) -> dict[str, Part]:
        """Every shard by its name relative to the output folder."""
        placed = {f"{data_folder(name)}/{p.name}": p for name, parts in self.parts.items() for p in parts}
        return placed | {f"{quarantine_folder(self.contract)}/{p.name}": p for p in self.quarantine}

    def imbalance(self) -> str:
        """What does not add up, in words; "" when the accounts are whole."""
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
        """The same as plain JSON values; shards by name only (the certificate's file list has their facts)."""
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
            **({"noted": self.noted} if self.noted else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], files: Mapping[str, Part]) -> Receipt:
        """The receipt again, its shards from the file list; raises ``KeyError`` where one is missing."""
        facts = {f.name: value[f.name] for f in fields(cls) if f.name != "noted"}
        facts["noted"] = value.get("noted", "")
        facts["parts"] = {
            name: tuple(files[f"{data_folder(name)}/{part}"] for part in parts)
            for name, parts in value["parts"].items()
        }
        facts["repeats"] = tuple(Repeat(*repeat) for repeat in value["repeats"])
        place = quarantine_folder(value["contract"])
        facts["quarantine"] = tuple(files[f"{place}/{part}"] for part in value["quarantine"])
        return cls(**facts)


def memo_key(source: str, sha256: str, **decides: Any) -> str:
    """Key of all that decides the bytes made of a source.

    Args:
        source, sha256: path (every sample carries it) and content of the file.
        decides: the digests of the contract, tokenizer, template and parameters, the semantics number and the
            versions of libraries that can change bytes; of what the file refers to (images), their digests too.
    """
    return digest_of({"source": source, "sha256": sha256, **decides})


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, added up and sorted by name."""
    whole: dict[str, int] = {}
    for part in counts:
        for name, count in part.items():
            whole[name] = whole.get(name, 0) + count
    return dict(sorted(whole.items()))
