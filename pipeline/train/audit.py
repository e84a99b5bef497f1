"""Audit: check a tokenized data set of any origin against a model. It reads files and writes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.train.judge import Hit, judge
from pipeline.train.model_limits import Target

COLUMNS = (
    "input_ids",
    "attention_mask",
    "labels",
    "bbox",
    "boxes",
    "token_type_ids",
    "position_ids",
    "pixel_values",
    "image",
)
SHOWN = 20
BATCH = 2_000


@dataclass(slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        rows: number of rows.
        hits: (file, hazard) of the first hazards, at most ``SHOWN`` per reason.
        counts: number of hazards by reason slug.
        columns: the checked columns.
    """

    rows: int = 0
    hits: list[tuple[str, Hit]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    columns: tuple[str, ...] = ()


def audit(dataset: Path, target: Target, *, causal: bool | None = None) -> Audit:
    """Check every row of a data set.

    Args:
        dataset: a ``save_to_disk`` folder (of one data set or several splits), a Parquet or Arrow file, or a folder
            of such files.
        target: the model to train.
        causal: whether labels are token ids shifted by one; by default they are, except for a model of a document
            family and for a classifier.

    Raises:
        InputError: there is no such file, or a file cannot be read.
    """
    found, shown = Audit(), Counter[str]()
    shift = _is_causal(target) if causal is None else causal
    for file in files_of(dataset):
        row = 0
        for batch in _batches(file):
            found.columns = tuple(batch.schema.names)
            for hit in judge(batch, target, causal=shift, first_row=row):
                found.counts[hit.reason.slug] += 1
                if shown[hit.reason.slug] < SHOWN:
                    shown[hit.reason.slug] += 1
                    found.hits.append((str(file.relative_to(dataset) if file != dataset else file.name), hit))
            row += batch.num_rows
        found.rows += row
    return found


def files_of(dataset: Path) -> list[Path]:
    """The data files of a data set, in order."""
    if dataset.is_file():
        return [dataset]
    if (dataset / "dataset_dict.json").is_file():
        splits = _json(dataset / "dataset_dict.json").get("splits", [])
        return [file for split in splits for file in files_of(dataset / str(split))]
    if (dataset / "state.json").is_file():
        return [
            dataset / str(item["filename"]) for item in _json(dataset / "state.json").get("_data_files", [])
        ]
    found = sorted(path for path in dataset.rglob("*") if path.suffix in (".parquet", ".arrow"))
    if not found:
        raise InputError(
            "nothing tokenized is here",
            where=str(dataset),
            expected="a save_to_disk folder, or Parquet or Arrow files",
        )
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError("cannot be read", where=str(path), found=type(error).__name__) from None
    return value if isinstance(value, dict) else {}


def _batches(file: Path) -> Iterator[pa.RecordBatch]:
    """The batches of a file, with the checked columns only."""
    try:
        if file.suffix == ".parquet":
            import pyarrow.parquet as pq

            parquet = pq.ParquetFile(file)
            names = [name for name in COLUMNS if name in parquet.schema_arrow.names]
            yield from parquet.iter_batches(BATCH, columns=names)
            return
        source = pa.memory_map(str(file))
        try:
            table = pa.ipc.open_stream(source).read_all()
        except pa.ArrowInvalid:
            table = pa.ipc.open_file(source).read_all()
        table = table.select([name for name in COLUMNS if name in table.column_names])
        yield from table.to_batches(BATCH)
    except (OSError, pa.ArrowException) as error:
        raise InputError("cannot be read", where=str(file), found=type(error).__name__) from None


def _is_causal(target: Target) -> bool:
    heads = " ".join(str(name) for name in target.config.get("architectures") or ())
    return target.limits.family is None and "Classification" not in heads
