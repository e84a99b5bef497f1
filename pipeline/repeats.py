"""The second pass: the same content again, in another partition, file or split.

Partitions are judged alone; only here are they seen together. The view is the same whether a receipt is new or taken
over (what it certified, plus what an earlier second pass took from it), so an incremental run finds exactly what a
run from scratch finds. The first record in the order of the inputs stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from pipeline.certificate.receipt import Receipt, Repeat
from pipeline.contract import dataset_names
from pipeline.reasons import Policy, Reason
from pipeline.schema.model import Schema
from pipeline.shards.part import data_folder

Locate = Callable[[str], Path]
"""Name of a shard relative to the output folder → where it lies now."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What the second pass found in one schema.

    Attributes:
        rejected: by receipt (place in the list given), the records that must go; receipts without any are absent.
        flagged: number of records by reason slug that are only counted.
    """

    rejected: Mapping[int, tuple[Repeat, ...]]
    flagged: Mapping[str, int]


def find(schema: Schema, receipts: Sequence[Receipt], locate: Locate) -> Repeats:
    """Find records whose content stands earlier, and training records that are in an evaluation split, too.

    Args:
        schema: the schema of all receipts.
        receipts: in the order of the inputs.
        locate: finds the shards.
    """
    view = _view(schema, receipts, locate)
    rejected: dict[int, list[Repeat]] = {}
    flagged: dict[str, int] = {}
    for reason, judge in ((Reason.TRAIN_EVAL_OVERLAP, _overlap), (Reason.DUPLICATE_ROW, _again)):
        view = judge(schema, view)
        hits = view.filter("hit")
        if schema.policy(reason) is Policy.QUARANTINE:
            for receipt, row, content, split, first in hits.select(*KEYS, "first").iter_rows():
                rejected.setdefault(receipt, []).append(Repeat(row, reason.slug, first, content, split))
            view = view.filter(~pl.col("hit"))  # what is gone cannot be the first of others
        elif len(hits):
            flagged[reason.slug] = len(hits)
    return Repeats({key: tuple(sorted(found)) for key, found in rejected.items()}, flagged)


KEYS = ("receipt", "row", "content_id", "split")
SCHEMA = pl.Schema(
    {"receipt": pl.Int64, "row": pl.Int64, "content_id": pl.String, "split": pl.String, "place": pl.String}
)


def _again(schema: Schema, view: pl.DataFrame) -> pl.DataFrame:
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


def _view(schema: Schema, receipts: Sequence[Receipt], locate: Locate) -> pl.DataFrame:
    """Every record of a first pass, in the order of the inputs: one row a record."""
    frames = []
    splits = {dataset: split for split, dataset in dataset_names(schema).items()}
    for number, receipt in enumerate(receipts):
        place = receipt.source if receipt.sheet is None else f"{receipt.source}, sheet {receipt.sheet}"
        for dataset, split in splits.items():
            for part in receipt.parts.get(dataset, ()):
                found = _columns(locate(f"{data_folder(dataset)}/{part.name}"))
                frames.append(_framed(number, found["row"], found["content_id"], split, place))
        for repeat in receipt.repeats:
            rows, contents = pl.Series([repeat.row]), pl.Series([repeat.content])
            frames.append(_framed(number, rows, contents, repeat.split, place))
    if not frames:
        return SCHEMA.to_frame()
    view = pl.concat(frames)
    return view.unique(["receipt", "row", "content_id"], keep="first").sort("receipt", "row", "content_id")


def _framed(number: int, rows: pl.Series, contents: pl.Series, split: str, place: str) -> pl.DataFrame:
    frame = pl.DataFrame({"row": rows, "content_id": contents})
    where = pl.format("{}, row {}", pl.lit(place), "row")
    return frame.select(
        pl.lit(number, pl.Int64).alias("receipt"), "row", "content_id", pl.lit(split).alias("split"),
        where.alias("place"),
    )  # fmt: skip


def _columns(path: Path) -> pl.DataFrame:
    """``row`` and ``content_id`` of a shard; its other columns stay on the disk."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        batches = [batch.select(["row", "content_id"]) for batch in stream]
        table = pa.Table.from_batches(
            batches, pa.schema([stream.schema.field("row"), stream.schema.field("content_id")])
        )
        frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table gives a frame
    return frame
