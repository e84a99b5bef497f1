"""Small certified folders made without reading a raw file: a document set with pages, and a chat set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.certificate.receipt import Receipt, histogram
from pipeline.certificate.statement import Contract, Inputs
from pipeline.models.families import limits_of
from pipeline.publish import CleanFolder
from pipeline.shards import schemas as arrow
from pipeline.shards.files import data_folder
from pipeline.shards.writer import ShardWriter

LABELS = ("O", "B-KEY", "I-KEY", "B-VALUE", "I-VALUE", "B-HEADER", "I-HEADER")
SIDE = 32
LAYOUT_CONFIG: dict[str, Any] = {
    "model_type": "layoutlmv3",
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "max_2d_position_embeddings": 1024,
    "coordinate_size": 6,
    "shape_size": 4,
    "input_size": SIDE,
    "patch_size": 16,
    "num_channels": 3,
    "type_vocab_size": 1,
    "rel_pos_bins": 8,
    "max_rel_pos": 16,
    "rel_2d_pos_bins": 8,
    "max_rel_2d_pos": 16,
    "visual_embed": True,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
    "pad_token_id": 3,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "rope_theta": 10000.0,
}


def layout_rows(count: int, seed: int = 0, longest: int = 60, labels: int = len(LABELS)) -> dict[str, Any]:
    """Columns of document samples: two windows a page, lengths from 4 to ``longest``."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, longest + 1, count)
    ids, boxes, tags = [], [], []
    for n in lengths:
        corner = rng.integers(0, 900, (n, 2))
        box = np.concatenate([corner, corner + rng.integers(1, 100, (n, 2))], axis=1)
        tag = rng.integers(0, labels, n)
        box[[0, -1]], tag[[0, -1]] = 0, -100
        ids.append([0, *rng.integers(4, 120, n - 2).tolist(), 2])
        boxes.append(box.tolist())
        tags.append(tag.tolist())
    return {
        **_provenance(count, "forms/a.xlsx", "Sheet1"),
        "input_ids": pa.array(ids, arrow.IDS),
        "attention_mask": pa.array([[1] * len(i) for i in ids], arrow.MASK),
        "bbox": pa.array(boxes, pa.list_(pa.list_(pa.int16(), 4))),
        "word_ids": pa.array([[-1, *range(len(i) - 2), -1] for i in ids], arrow.IDS),
        "window": pa.array([i % 2 for i in range(count)], pa.int32()),
        "windows": pa.array([2] * count, pa.int32()),
        "labels": pa.array(tags, arrow.IDS),
        "page_id": pa.array([f"{i // 2:020d}" for i in range(count)]),
    }


def page_rows(count: int, seed: int = 0) -> dict[str, Any]:
    """Columns of page images."""
    size = 3 * SIDE * SIDE
    pixels = np.random.default_rng(seed).integers(0, 256, count * size, dtype=np.uint8)
    return {
        "page_id": pa.array([f"{i:020d}" for i in range(count)]),
        "source": pa.array(["forms/a.xlsx"] * count),
        "image": pa.array([f"{i}.png" for i in range(count)]),
        "pixels": pa.FixedSizeListArray.from_arrays(pa.array(pixels), size),
    }


def chat_rows(count: int, seed: int = 0, longest: int = 100) -> dict[str, Any]:
    """Columns of chats; the second half of each is the answer, which follows a pattern that can be learned."""
    rng = np.random.default_rng(seed)
    ids = [[0, *rng.integers(4, 120, n - 2).tolist(), 2] for n in rng.integers(6, longest + 1, count)]
    ids = [i[: len(i) // 2] + [10 + k % 4 for k in range(len(i) - len(i) // 2 - 1)] + [2] for i in ids]
    return {
        **_provenance(count, "clinical/a.csv", None),
        "input_ids": pa.array(ids, arrow.IDS),
        "attention_mask": pa.array([[1] * len(i) for i in ids], arrow.MASK),
        "labels": pa.array([[-100] * (len(i) // 2) + i[len(i) // 2 :] for i in ids], arrow.IDS),
        "turns": pa.array(
            [[{"role": "user", "start": 1, "end": len(i) // 2}] for i in ids],
            arrow.chat([], record=False).field("turns").type,
        ),
        "tokens_dropped": pa.array([0] * count, pa.int32()),
    }


def packed_rows(count: int, capacity: int = 64, seed: int = 0) -> dict[str, Any]:
    """Columns of packed chats: two or three conversations in each sample."""
    rng = np.random.default_rng(seed)
    ids, labels, positions, inside = [], [], [], []
    for row in range(count):
        flat, tags, place = [], [], []
        for part in rng.integers(8, capacity // 3, 2 + row % 2):
            half = part // 2
            one = [
                0,
                *rng.integers(4, 120, half - 1).tolist(),
                *(10 + k % 4 for k in range(part - half - 1)),
                2,
            ]
            flat += one
            tags += [-100] * (part // 2) + one[part // 2 :]
            place += range(part)
        ids.append(flat)
        labels.append(tags)
        positions.append(place)
        inside.append([f"clinical/a.csv#{row}", f"clinical/a.csv#{row + 1}"])
    base = chat_rows(count, seed)
    return {
        **base,
        "input_ids": pa.array(ids, arrow.IDS),
        "attention_mask": pa.array([[1] * len(i) for i in ids], arrow.MASK),
        "labels": pa.array(labels, arrow.IDS),
        "position_ids": pa.array(positions, arrow.IDS),
        "samples": pa.array(inside, pa.list_(pa.string())),
    }


def layout_folder(clean: Path, count: int = 40, *, shard_rows: int = 16, **facts: Any) -> Path:
    """A certified document set named ``forms``."""
    rows = facts.pop("rows", None) or layout_rows(count)
    schema = arrow.layout([], float_boxes=False, labels=True, image=True, record=False)
    limits = asdict(limits_of(LAYOUT_CONFIG, pad_id=1, num_labels=len(LABELS)))
    given = {"labels": LABELS, "limits": limits} | facts
    datasets = {"forms": (schema, rows), "forms.pages": (arrow.pages(SIDE), page_rows((count + 1) // 2))}
    return folder(clean, "forms", "layout", datasets, shard_rows, **given)


def chat_folder(
    clean: Path, count: int = 40, *, packed: bool = False, shard_rows: int = 16, **facts: Any
) -> Path:
    """A certified chat set named ``clinical``."""
    rows = facts.pop("rows", None) or (packed_rows(count) if packed else chat_rows(count))
    schema = arrow.chat([], record=False, packed=packed)
    limits = asdict(limits_of(LLAMA_CONFIG, pad_id=3))
    return folder(
        clean, "clinical", "chat", {"clinical": (schema, rows)}, shard_rows, **({"limits": limits} | facts)
    )


def folder(
    clean: Path,
    name: str,
    kind: str,
    datasets: Mapping[str, tuple[pa.Schema, Mapping[str, Any]]],
    shard_rows: int,
    **facts: Any,
) -> Path:
    """Publish data sets of one contract."""
    given: dict[str, Any] = {
        "version": 1,
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "parameters": {"max_tokens": 64},
        "guarantees": ["token_out_of_vocab"],
        "tokenizer": {
            "class": "T",
            "size": 120,
            "digest": "a" * 64,
            "probe_digest": "b" * 64,
            "special_ids": {},
        },
    }
    schemas = {dataset: schema for dataset, (schema, _) in datasets.items()}
    contract = Contract(name=name, kind=kind, datasets=schemas, **given | facts)
    with CleanFolder(clean, fsync=False) as out:
        parts, lengths, certified = {}, {}, 0
        for dataset, (schema, rows) in datasets.items():
            writer = ShardWriter(out.staging / data_folder(dataset), schema, shard_rows, 5, fsync=False)
            table = pa.table({f: rows[f] for f in schema.names}, schema=schema)
            writer.write(table)
            parts[dataset] = writer.close()
            if "input_ids" in schema.names:
                lengths[dataset] = histogram(np.array([len(i) for i in rows["input_ids"]]))
                certified += table.num_rows
        receipt = Receipt(
            memo=hashlib.sha256(repr(sorted(lengths)).encode()).hexdigest(),
            contract=name,
            source="forms/a.xlsx",
            sha256="0" * 64,
            bytes=10,
            rows_read=certified,
            certified=certified,
            parts=parts,
            lengths=lengths,
        )
        out.publish(Inputs((contract,), "0", 1, {"pyarrow": "0"}), [receipt])
    return clean


def write_config(place: Path, config: Mapping[str, Any], labels: Sequence[str] = ()) -> Path:
    """A model folder that holds a config alone."""
    import json

    place.mkdir(parents=True, exist_ok=True)
    names = {"id2label": {str(i): label for i, label in enumerate(labels)}} if labels else {}
    (place / "config.json").write_text(json.dumps({**config, **names}))
    return place


def _provenance(count: int, source: str, sheet: str | None) -> dict[str, Any]:
    prefix = f"{source}#{sheet}" if sheet else source
    return {
        "sample_id": pa.array([f"{prefix}#{i + 2}" for i in range(count)]),
        "source": pa.array([source] * count),
        "sheet": pa.array([sheet] * count, pa.string()),
        "row": pa.array(range(2, count + 2), pa.int64()),
        "notes": pa.array([[] for _ in range(count)], pa.list_(pa.string())),
    }
