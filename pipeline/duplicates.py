"""The second pass: find records with the same content in other partitions, files or splits.

Workers process each partition alone; this pass compares all of them. A receipt lists its certified records and those
that an earlier second pass removed, so an incremental run finds the same repeats as a run from scratch. The first
record in the order of the inputs stays.

The pass compares short keys first: 8 bytes per record, made from the digest of its content. ``KeyCache`` stores them by
the digest of their shard, so they are never stale. It stores none for a schema with more than ``KEYS_AT_ONCE`` records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import pipeline
from pipeline.arrow_lists import Int64s
from pipeline.certificate.cache import CacheFile
from pipeline.certificate.digest import digest_of
from pipeline.certificate.receipt import Receipt, Repeat
from pipeline.plan import dataset_names
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Output, Schema
from pipeline.shards.files import Part, data_folder
from pipeline.shards.writer import ShardWriter
from pipeline.stages.build import kind_of
from pipeline.stages.chat.pack import is_packed, unpacked
from pipeline.stages.kind import Contents

Keys = npt.NDArray[np.uint64]
SUFFIX = ".keys"


class KeyCache:
    """The short keys of shards, kept from run to run: an unchanged shard is not read again for them.

    Args:
        clean: the output folder of the shards; None keeps no keys.
        cache: the folder of the cache files; default: the user's cache folder.
        force: whether the keys of earlier runs are ignored.

    Keys that another version of the program wrote, or one with other ``SEMANTICS``, are not reused.
    """

    def __init__(self, clean: Path | None = None, cache: Path | None = None, *, force: bool = False) -> None:
        self._file = None if clean is None else CacheFile(clean, SUFFIX, cache)
        self._known = {} if self._file is None or force else _parse_keys(self._file.read_bytes())
        self._fresh: dict[str, Keys] = {}

    def of(self, digest: str, read: Callable[[], Iterable[Keys]]) -> Keys:
        """The keys of the shard with this digest, read only when the cache does not hold them; "" stands for records
        that are in no shard."""
        keys = self._known.get(digest)
        if keys is None:
            keys = np.concatenate([np.empty(0, np.uint64), *read()])
        if digest:
            self._fresh[digest] = keys
        return keys

    def save(self) -> None:
        """Write the keys that this run used, and no others."""
        if self._file is not None and self._fresh.keys() != self._known.keys():
            counts = {digest: len(keys) for digest, keys in self._fresh.items()}
            head = json.dumps({"made_by": _made_by(), "counts": counts}).encode()
            body = np.concatenate([np.empty(0, np.uint64), *self._fresh.values()]).astype("<u8").tobytes()
            self._file.write_bytes(head + b"\n" + body)


def _made_by() -> str:
    return f"{pipeline.__version__} {pipeline.SEMANTICS}"


def _parse_keys(content: bytes | None) -> dict[str, Keys]:
    """Keys by digest of their shard; none where the content has another form or another program wrote it."""
    head, _, body = (content or b"{}").partition(b"\n")
    try:
        facts = json.loads(head)
        if facts.get("made_by") != _made_by():
            return {}
        counts = {str(digest): int(count) for digest, count in facts["counts"].items()}
        ends = np.cumsum([0, *counts.values()])
        keys = np.frombuffer(body, "<u8").astype(np.uint64)
    except (ValueError, TypeError, AttributeError, KeyError):
        return {}
    if len(keys) != ends[-1] or min(counts.values(), default=0) < 0:
        return {}
    return {digest: keys[a:b] for digest, a, b in zip(counts, ends[:-1], ends[1:], strict=True)}


Locate = Callable[[str], Path]
"""Name of a shard relative to the output folder → its current path."""
KEYS_AT_ONCE = 4_000_000
"""Number of keys compared in one round: 32 MB."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repeated records of one schema.

    Attributes:
        rejected: by index of the receipt, the records to quarantine; receipts without such records are missing.
        flagged: by reason slug, the number of repeated records that stay and carry a note.
        notes: by index of the receipt, (row, reason slug) of these records, sorted; receipts without any are missing.
    """

    rejected: Mapping[int, tuple[Repeat, ...]]
    flagged: Mapping[str, int]
    notes: Mapping[int, tuple[tuple[int, str], ...]]


def find_repeats(
    schema: Schema, receipts: Sequence[Receipt], locate: Locate, cache: KeyCache | None = None
) -> Repeats:
    """Find records that repeat an earlier record, and training records that are also in an evaluation split.

    Args:
        schema: the schema of all receipts.
        receipts: in the order of the inputs.
        locate: finds the shards.
        cache: short keys of the shards of earlier runs.
    """
    records = _candidates(schema, receipts, locate, cache or KeyCache())
    rejected: dict[int, list[Repeat]] = {}
    flagged: dict[str, int] = {}
    notes: dict[int, list[tuple[int, str]]] = {}
    for reason in (Reason.TRAIN_EVAL_OVERLAP, Reason.DUPLICATE_ROW):
        records = _overlap(schema, records) if reason is Reason.TRAIN_EVAL_OVERLAP else _repeated(records)
        hits = records.filter("hit")
        if schema.policy(reason) is Policy.QUARANTINE:
            for receipt, row, content, split, first in hits.select(*KEYS, "first").iter_rows():
                rejected.setdefault(receipt, []).append(Repeat(row, reason.slug, first, content, split))
            records = records.filter(~pl.col("hit"))  # a removed record is not the first of others
        elif len(hits):
            flagged[reason.slug] = len(hits)
            for receipt, row in hits.select("receipt", "row").iter_rows():
                notes.setdefault(receipt, []).append((row, reason.slug))
    return Repeats(
        {key: tuple(sorted(found)) for key, found in rejected.items()},
        flagged,
        {key: tuple(sorted(found)) for key, found in notes.items()},
    )


DIGITS = 15
SHIFTS = np.arange(4 * (DIGITS - 1), -1, -4, dtype=np.uint64)
KEYS = ("receipt", "row", "content_id", "split")
SCHEMA = pl.Schema(
    {"receipt": pl.Int64, "row": pl.Int64, "content_id": pl.String, "split": pl.String, "place": pl.String}
)


def _repeated(records: pl.DataFrame) -> pl.DataFrame:
    """Adds ``hit``, whether an earlier record has the same content, and ``first``, the place of the first one."""
    return records.with_columns(
        (~pl.col("content_id").is_first_distinct()).alias("hit"),
        pl.col("place").first().over("content_id").alias("first"),
    )


def _overlap(schema: Schema, records: pl.DataFrame) -> pl.DataFrame:
    """Adds ``hit``, whether a training record has the content of a record of another split, and ``first``, the place of
    that record."""
    if schema.split is None:
        return records.with_columns(pl.lit(False).alias("hit"), pl.lit("").alias("first"))
    training = "train" if "train" in schema.split.shares else next(iter(schema.split.shares))
    held_out = records.filter(pl.col("split") != training).unique(
        "content_id", keep="first", maintain_order=True
    )
    places = held_out.select("content_id", pl.col("place").alias("first"))
    joined = records.drop("first", strict=False).join(
        places, on="content_id", how="left", maintain_order="left"
    )
    return joined.with_columns(((pl.col("split") == training) & pl.col("first").is_not_null()).alias("hit"))


def _candidates(schema: Schema, receipts: Sequence[Receipt], locate: Locate, cache: KeyCache) -> pl.DataFrame:
    """The records that may repeat each other, one row per record, in the order of the inputs.

    They are the records with a short key that occurs twice. The keys are compared in rounds of about ``KEYS_AT_ONCE``
    keys, so that memory stays bounded.
    """
    shards = list(_shards(schema, receipts, locate))
    rounds = 1 + sum(shard.rows for shard in shards) // KEYS_AT_ONCE
    if rounds == 1:
        keys = [cache.of(shard.digest, shard.short_keys) for shard in shards]
        twice = _repeated_keys(keys)
        shards = [s for s, own in zip(shards, keys, strict=True) if len(twice) and np.isin(own, twice).any()]
    else:
        twice = np.concatenate([_repeated_keys_of_round(shards, number, rounds) for number in range(rounds)])
    frames = [frame for shard in shards if len(twice) and len(frame := shard.records_with(twice))]
    if not frames:
        return SCHEMA.to_frame()
    records = pl.concat(frames)
    return records.unique(["receipt", "row", "content_id"], keep="first").sort("receipt", "row", "content_id")


def _repeated_keys_of_round(shards: Sequence[_Shard], number: int, rounds: int) -> Keys:
    """Keys of one round that occur in more than one record, sorted, uint64."""
    return _repeated_keys(
        [keys[keys % np.uint64(rounds) == number] for shard in shards for keys in shard.short_keys()]
    )


def _repeated_keys(gathered: Sequence[Keys]) -> Keys:
    """Keys that occur more than once, sorted, uint64."""
    keys = np.sort(np.concatenate(gathered)) if gathered else np.empty(0, np.uint64)
    return np.unique(keys[1:][keys[1:] == keys[:-1]])


@dataclass(frozen=True, slots=True)
class _Shard:
    """The records of one shard, or one record that an earlier second pass removed from a partition."""

    receipt: int
    place: str
    split: str
    rows: int
    digest: str
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def short_keys(self) -> Iterator[Keys]:
        """The short keys of the records, batch by batch; the windows of one record give one key."""
        for batch in self.batches():
            rows = batch.column("row").to_numpy(zero_copy_only=False)
            first = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1)) if len(rows) else np.empty(0, np.int64)
            yield _keys(batch.column("content_id").take(pa.array(first, pa.int64())))

    def records_with(self, twice: Keys) -> pl.DataFrame:
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
                    pl.lit(self.receipt, pl.Int64).alias("receipt"),
                    "row",
                    "content_id",
                    pl.lit(self.split).alias("split"),
                    where.alias("place"),
                )
            )
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
    """``row`` and ``content_id`` of each record of a shard; the other columns are not read."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield contents(batch)


def _keys(contents: pa.Array) -> Keys:
    """The first 15 hexadecimal digits of each digest, uint64."""
    if contents.type != pa.string():
        raise TypeError(f"content ids are {contents.type}, not string: their offsets would be misread")
    if not len(contents):
        return np.empty(0, np.uint64)
    _, ends, text = contents.buffers()
    starts = np.frombuffer(ends, np.int32)[contents.offset : contents.offset + len(contents)]
    digits = np.frombuffer(text, np.uint8)[starts[:, None] + np.arange(DIGITS)]
    values = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0")).astype(np.uint64)
    keys: Keys = np.bitwise_or.reduce(values << SHIFTS, axis=1)
    return keys


# Records that stay although their content stands elsewhere carry a note of it. Only here is that known, so that the
# shards of their partition are written once more, with nothing changed but the column ``notes``.


@dataclass(frozen=True, slots=True)
class NoteTask:
    """The notes of one partition; plain data, so that it travels to any process.

    Attributes:
        receipt: of the partition as it stands.
        notes: (row, reason slug) of its records that are to carry a note; those of an earlier second pass go.
        shards: where each certified shard lies now, by its name relative to the output folder.
        output: the schema's ``output`` section: rows and bytes of a shard.
        staging: below which the shards are written.
    """

    receipt: Receipt
    notes: tuple[tuple[int, str], ...]
    shards: Mapping[str, str]
    output: Output
    staging: str
    fsync: bool = True

    @property
    def source(self) -> str:
        """The file that the partition belongs to, for messages of an engine."""
        return self.receipt.source


def notes_digest(notes: Sequence[tuple[int, str]]) -> str:
    """What a receipt says of the notes its shards carry, "" where there are none."""
    return digest_of([list(note) for note in notes]) if notes else ""


def write_notes(task: NoteTask) -> Receipt:
    """Write the certified shards of a partition once more, with other notes.

    The rows, their order and the borders of batches and shards stay, so that a run from scratch and one that takes
    receipts over come to the same bytes.
    """
    wanted: dict[int, list[str]] = {}
    for row, slug in task.notes:
        wanted.setdefault(row, []).append(slug)
    parts = {dataset: _noted(task, dataset, held, wanted) for dataset, held in task.receipt.parts.items()}
    return replace(task.receipt, parts=parts, noted=notes_digest(task.notes))


def _noted(
    task: NoteTask, dataset: str, held: Sequence[Part], wanted: Mapping[int, list[str]]
) -> tuple[Part, ...]:
    """The shards of one data set; that of page images has no notes and stays as it is."""
    writer: ShardWriter | None = None
    for part in held:
        with (
            pa.memory_map(task.shards[f"{data_folder(dataset)}/{part.name}"]) as file,
            pa.ipc.open_stream(file) as stream,
        ):
            if "notes" not in stream.schema.names:
                return tuple(held)
            writer = writer or ShardWriter(
                Path(task.staging) / data_folder(dataset),
                stream.schema,
                task.output.shard_rows,
                task.output.batch_rows,
                shard_bytes=task.output.shard_bytes,
                fsync=task.fsync,
            )
            for batch in stream:
                writer.write(_with_notes(pa.Table.from_batches([batch]), wanted))
    return writer.close() if writer is not None else ()


def _with_notes(table: pa.Table, wanted: Mapping[int, list[str]]) -> pa.Table:
    """The samples with a note where their record, or one of the conversations packed in them, is to carry one."""
    owner, rows = _rows_inside(table)
    hits = np.flatnonzero(np.isin(rows, np.fromiter(wanted, np.int64, len(wanted))))
    held = table["notes"].combine_chunks()
    if not len(hits) and not pc.any(pc.is_in(held.flatten(), value_set=pa.array(_SLUGS))).as_py():
        return table
    notes = [[slug for slug in own if slug not in _SLUGS] for own in held.to_pylist()]
    for hit in hits.tolist():
        notes[owner[hit]] += wanted[int(rows[hit])]
    ordered = [sorted(set(own), key=_ORDER.__getitem__) for own in notes]
    place = table.schema.get_field_index("notes")
    return table.set_column(place, table.schema.field(place), pa.array(ordered, held.type))


def _rows_inside(table: pa.Table) -> tuple[Int64s, Int64s]:
    """The records in each sample: int64 [records], index of the sample, and row of the record."""
    rows: Int64s
    if not is_packed(table.schema):
        rows = table["row"].to_numpy().astype(np.int64)
        return np.arange(len(rows), dtype=np.int64), rows
    owner: list[Int64s] = []
    found: list[Int64s] = []
    start = 0
    for batch in table.to_batches():
        counts = batch.column("samples").value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        owner.append(np.repeat(np.arange(start, start + len(counts)), counts))
        found.append(unpacked(batch).column("row").to_numpy(zero_copy_only=False).astype(np.int64))
        start += len(counts)
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *owner]), np.concatenate([empty, *found])


_SLUGS = (Reason.DUPLICATE_ROW.slug, Reason.TRAIN_EVAL_OVERLAP.slug)
_ORDER = {reason.slug: place for place, reason in enumerate(Reason)}
