"""Small runs made without a pipeline: receipts and shards as partitions give them, published into a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings
from pipeline.certificate.receipt import Receipt, memo_key
from pipeline.certificate.statement import Contract, Inputs
from pipeline.publish import CleanFolder, PublishOutcome
from pipeline.reasons import Policy, Reason
from pipeline.shards import schemas
from pipeline.shards.files import data_folder, quarantine_folder
from pipeline.shards.quarantine import QuarantineWriter
from pipeline.shards.writer import ShardWriter

SCHEMA = schemas.tokens([], labels=True)
NAME = "demo"


def contract(**facts: Any) -> Contract:
    """A contract of one data set with two splits, of which ``demo.eval`` stays empty."""
    given: dict[str, Any] = {
        "name": NAME,
        "version": 1,
        "kind": "tokens",
        "digest": "c0" * 32,
        "datasets": {f"{NAME}.train": SCHEMA, f"{NAME}.eval": SCHEMA},
        "parameters": {"max_tokens": 512, "share": 0.1},
        "guarantees": ["token_out_of_vocab"],
    }
    return Contract(**given | facts)


def inputs(**facts: Any) -> Inputs:
    """The rest of a certificate, the same on any machine."""
    return Inputs((contract(**facts),), "0.0.0", 1, {"pyarrow": "0"})


def table(source: str, rows: int, seed: int = 0) -> pa.Table:
    """Samples of one source; other seeds give other tokens."""
    ids = [[(i * 7 + k + seed) % 1000 for k in range(i % 5 + 2)] for i in range(rows)]
    return pa.table(
        {
            "sample_id": [f"{source}#{i + 1}" for i in range(rows)],
            "source": [source] * rows,
            "sheet": pa.nulls(rows, pa.string()),
            "row": pa.array(range(1, rows + 1), pa.int64()),
            "notes": pa.array([[] for _ in range(rows)], pa.list_(pa.string())),
            "input_ids": pa.array(ids, schemas.IDS),
            "attention_mask": pa.array([[1] * len(i) for i in ids], schemas.MASK),
            "labels": pa.array([[-100, *i[1:]] for i in ids], schemas.IDS),
        }
    ).select(SCHEMA.names)


def memo(source: str, rows: int, seed: int = 0) -> str:
    """Memo key of a made-up source."""
    return memo_key(source, digest(source, rows, seed), contract="c0" * 32)


def digest(source: str, rows: int, seed: int = 0) -> str:
    """Digest of a made-up source's content."""
    return hashlib.sha256(f"{source} {rows} {seed}".encode()).hexdigest()


def receipt(
    staging: Path,
    source: str,
    rows: int,
    seed: int = 0,
    bad: int = 1,
    shard_rows: int = 8,
    batch_rows: int = 3,
) -> Receipt:
    """Do what a partition does: write samples and quarantined records, and account for them."""
    writer = ShardWriter(staging / data_folder(f"{NAME}.train"), SCHEMA, shard_rows, batch_rows, fsync=False)
    writer.write(table(source, rows, seed))
    aside = QuarantineWriter(staging / quarantine_folder(NAME), fsync=False)
    numbers = np.arange(bad, dtype=np.int64)
    cells = pl.DataFrame({"input_ids": [f"bad {i}" for i in range(bad)]})
    findings = Findings()
    findings.add(Reason.VALUE_TYPE, Policy.QUARANTINE, "input_ids", numbers, found="text", expected="a list")
    aside.write(Batch(source, None, numbers, numbers + rows + 1, pl.DataFrame(), cells), findings)
    return Receipt(
        memo=memo(source, rows, seed),
        contract=NAME,
        source=source,
        sha256=digest(source, rows, seed),
        bytes=rows * 10,
        rows_read=rows + bad + 1,
        certified=rows,
        quarantined=bad,
        dropped={"blank_row": 1},
        reasons={"value_type": bad} if bad else {},
        parts={f"{NAME}.train": parts} if (parts := writer.close()) else {},
        quarantine=aside.close(),
        lengths={f"{NAME}.train": {"8": rows}},
    )


def run(
    clean: Path,
    sources: Mapping[str, tuple[int, int]],
    *,
    force: bool = False,
    fsync: bool = False,
    keys: Sequence[Path] = (),
    facts: Mapping[str, Any] | None = None,
) -> PublishOutcome:
    """A whole run: each source is (rows, seed); what is known from the run before is taken over."""
    with CleanFolder(clean, fsync=fsync, force=force) as folder:
        receipts: list[Receipt] = []
        for source, (rows, seed) in sources.items():
            known = folder.find(memo(source, rows, seed))
            receipts += known or (receipt(folder.staging, source, rows, seed),)
        return folder.publish(inputs(**facts or {}), receipts, keys)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden folders left out, by its relative name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(".")
    }
