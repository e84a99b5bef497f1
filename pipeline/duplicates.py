"""The second pass: the same content again, in another partition, file or split.

They are kept by the shard's digest, so they cannot be stale; what of a kept file is trusted, ``certificate/cache.py``
says. 8 bytes a record: of runs with more than ``repeats.KEYS_AT_ONCE`` records nothing is kept.

Partitions are judged alone; only here are they seen together. The view is the same whether a receipt is new or taken
over (what it certified, plus what an earlier second pass took from it), so an incremental run finds exactly what a
run from scratch finds. The first record in the order of the inputs stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from pipeline.certificate.cache import KeptFile
from pipeline.certificate.receipt import Receipt, Repeat
from pipeline.plan import dataset_names
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.shards.files import data_folder
from pipeline.stages.build import kind_of
from pipeline.stages.kind import Contents

# Short keys of the records of shards, kept from run to run: a shard that did not change is not read for them
# again.


Keys = npt.NDArray[np.uint64]
SUFFIX = ".keys"


class KeyCache:
    """Short keys by shard.

    Args:
        clean: the output folder that the shards lie in; None: nothing is kept.
        place: where they are kept; default: the user's cache folder.
    """

    def __init__(self, clean: Path | None = None, place: Path | None = None) -> None:
        self._notes = None if clean is None else KeptFile(clean, SUFFIX, place)
        self._known = {} if self._notes is None else _parsed(self._notes.read_bytes())
        self._fresh: dict[str, Keys] = {}

    def of(self, digest: str, read: Callable[[], Iterable[Keys]]) -> Keys:
        """The keys of the shard with this digest, read only where they are not known; "" is no shard."""
        keys = self._known.get(digest)
        if keys is None:
            keys = np.concatenate([np.empty(0, np.uint64), *read()])
        if digest:
            self._fresh[digest] = keys
        return keys

    def save(self) -> None:
        """Keep the keys asked for, and no others."""
        if self._notes is not None and self._fresh.keys() != self._known.keys():
            head = json.dumps({digest: len(keys) for digest, keys in self._fresh.items()}).encode()
            body = np.concatenate([np.empty(0, np.uint64), *self._fresh.values()]).astype("<u8").tobytes()
            self._notes.write_bytes(head + b"\n" + body)


def _parsed(content: bytes | None) -> dict[str, Keys]:
    """Keys by digest; none where they have not the form."""
    head, _, body = (content or b"{}").partition(b"\n")
    try:
        counts = {str(digest): int(count) for digest, count in json.loads(head).items()}
        ends = np.cumsum([0, *counts.values()])
        keys = np.frombuffer(body, "<u8").astype(np.uint64)
    except (ValueError, TypeError, AttributeError):
        return {}
    if len(keys) != ends[-1] or min(counts.values(), default=0) < 0:
        return {}
    return {digest: keys[a:b] for digest, a, b in zip(counts, ends[:-1], ends[1:], strict=True)}


# The second pass: the same content again, in another partition, file or split.


Locate = Callable[[str], Path]
"""Name of a shard relative to the output folder → where it lies now."""
KEYS_AT_ONCE = 4_000_000
"""Keys compared in one round: 32 MB."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What the second pass found in one schema.

    Attributes:
        rejected: by receipt (place in the list given), the records that must go; receipts without any are absent.
        flagged: number of records by reason slug that are only counted.
    """

    rejected: Mapping[int, tuple[Repeat, ...]]
    flagged: Mapping[str, int]


def find_repeats(
    schema: Schema, receipts: Sequence[Receipt], locate: Locate, kept: KeyCache | None = None
) -> Repeats:
    """Find records whose content stands earlier, and training records that are in an evaluation split, too.

    Args:
        schema: the schema of all receipts.
        receipts: in the order of the inputs.
        locate: finds the shards.
        kept: short keys of shards that an earlier run looked at.
    """
    view = _record_keys(schema, receipts, locate, kept or KeyCache())
    rejected: dict[int, list[Repeat]] = {}
    flagged: dict[str, int] = {}
    for reason, judge in ((Reason.TRAIN_EVAL_OVERLAP, _overlap), (Reason.DUPLICATE_ROW, _repeated)):
        view = judge(schema, view)
        hits = view.filter("hit")
        if schema.policy(reason) is Policy.QUARANTINE:
            for receipt, row, content, split, first in hits.select(*KEYS, "first").iter_rows():
                rejected.setdefault(receipt, []).append(Repeat(row, reason.slug, first, content, split))
            view = view.filter(~pl.col("hit"))  # what is gone cannot be the first of others
        elif len(hits):
            flagged[reason.slug] = len(hits)
    return Repeats({key: tuple(sorted(found)) for key, found in rejected.items()}, flagged)


DIGITS = 15
SHIFTS = np.arange(4 * (DIGITS - 1), -1, -4, dtype=np.uint64)
KEYS = ("receipt", "row", "content_id", "split")
SCHEMA = pl.Schema(
    {"receipt": pl.Int64, "row": pl.Int64, "content_id": pl.String, "split": pl.String, "place": pl.String}
)


def _repeated(schema: Schema, view: pl.DataFrame) -> pl.DataFrame:
    """``hit``: the content stands earlier; ``first``: where."""
    return view.with_columns(
        (~pl.col("content_id").is_first_distinct()).alias("hit"),
        pl.col("place").first().over("content_id").alias("first"),
    )


def _overlap(schema: Schema, view: pl.DataFrame) -> pl.DataFrame:
    """``hit``: a training record whose content is in another split, too; ``first``: where there."""
    if schema.split is None:
        return view.with_columns(pl.lit(False).alias("hit"), pl.lit("").alias("first"))
    training = "train" if "train" in schema.split.shares else next(iter(schema.split.shares))
    held_out = view.filter(pl.col("split") != training).unique(
        "content_id", keep="first", maintain_order=True
    )
    places = held_out.select("content_id", pl.col("place").alias("first"))
    joined = view.drop("first", strict=False).join(places, on="content_id", how="left", maintain_order="left")
    return joined.with_columns(((pl.col("split") == training) & pl.col("first").is_not_null()).alias("hit"))


def _record_keys(schema: Schema, receipts: Sequence[Receipt], locate: Locate, kept: KeyCache) -> pl.DataFrame:
    """The records of a first pass whose content may stand twice, in the order of the inputs: one row a record.

    Memory is bounded: short keys are compared first, in as many rounds as keep one round's keys below ``KEYS_AT_ONCE``;
    only records with a key that comes twice are looked at whole.
    """
    shards = list(_shards(schema, receipts, locate))
    rounds = 1 + sum(shard.rows for shard in shards) // KEYS_AT_ONCE
    if rounds == 1:
        keys = [kept.of(shard.digest, shard.short_keys) for shard in shards]
        twice = _repeated_keys(keys)
        shards = [s for s, own in zip(shards, keys, strict=True) if len(twice) and np.isin(own, twice).any()]
    else:
        twice = np.concatenate([_twice(shards, number, rounds) for number in range(rounds)])
    frames = [frame for shard in shards if len(twice) and len(frame := shard.among(twice))]
    if not frames:
        return SCHEMA.to_frame()
    view = pl.concat(frames)
    return view.unique(["receipt", "row", "content_id"], keep="first").sort("receipt", "row", "content_id")


def _twice(shards: Sequence[_Shard], number: int, rounds: int) -> Keys:
    """Keys of one round that come in more than one record, sorted, uint64."""
    return _repeated_keys(
        [keys[keys % np.uint64(rounds) == number] for shard in shards for keys in shard.short_keys()]
    )


def _repeated_keys(gathered: Sequence[Keys]) -> Keys:
    """Keys that come more than once, sorted, uint64."""
    keys = np.sort(np.concatenate(gathered)) if gathered else np.empty(0, np.uint64)
    return np.unique(keys[1:][keys[1:] == keys[:-1]])


@dataclass(frozen=True, slots=True)
class _Shard:
    """The records of one shard, or those that an earlier second pass took from a partition."""

    receipt: int
    place: str
    split: str
    rows: int
    digest: str
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def short_keys(self) -> Iterator[Keys]:
        """Short keys of the records, batch by batch; the windows of one record count once."""
        for batch in self.batches():
            rows = batch.column("row").to_numpy(zero_copy_only=False)
            first = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1)) if len(rows) else np.empty(0, np.int64)
            yield _keys(batch.column("content_id").take(pa.array(first, pa.int64())))

    def among(self, twice: Keys) -> pl.DataFrame:
        """The records with one of these keys."""
        frames = [SCHEMA.to_frame()]
        for batch in self.batches():
            hits = np.isin(_keys(batch.column("content_id")), twice)
            if not hits.any():
                continue
            frame = pl.from_arrow(batch.filter(pa.array(hits)))
            assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a batch gives a frame
            where = pl.format("{}, row {}", pl.lit(self.place), "row")
            frames.append(
                frame.select(
                    pl.lit(self.receipt, pl.Int64).alias("receipt"), "row", "content_id",
                    pl.lit(self.split).alias("split"), where.alias("place"),
                )
            )  # fmt: skip
        return pl.concat(frames)


def _shards(schema: Schema, receipts: Sequence[Receipt], locate: Locate) -> Iterator[_Shard]:
    splits = {dataset: split for split, dataset in dataset_names(schema).items()}
    contents = kind_of(schema).contents
    for number, receipt in enumerate(receipts):
        place = receipt.source if receipt.sheet is None else f"{receipt.source}, sheet {receipt.sheet}"
        for dataset, split in splits.items():
            for part in receipt.parts.get(dataset, ()):
                path = locate(f"{data_folder(dataset)}/{part.name}")
                yield _Shard(number, place, split, part.rows, part.sha256, partial(_columns, path, contents))
        for repeat in receipt.repeats:
            columns = {"row": [repeat.row], "content_id": [repeat.content]}
            batch = pa.RecordBatch.from_pydict(columns)
            yield _Shard(number, place, repeat.split, 1, "", partial(iter, [batch]))


def _columns(path: Path, contents: Contents) -> Iterator[pa.RecordBatch]:
    """``row`` and ``content_id`` of each record of a shard; its other columns stay on the disk."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield contents(batch)


def _keys(contents: pa.Array) -> Keys:
    """The first 15 hexadecimal digits of each digest, uint64."""
    if not len(contents):
        return np.empty(0, np.uint64)
    _, ends, text = contents.buffers()
    starts = np.frombuffer(ends, np.int32)[contents.offset : contents.offset + len(contents)]
    digits = np.frombuffer(text, np.uint8)[starts[:, None] + np.arange(DIGITS)]
    values = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0")).astype(np.uint64)
    keys: Keys = np.bitwise_or.reduce(values << SHIFTS, axis=1)
    return keys
