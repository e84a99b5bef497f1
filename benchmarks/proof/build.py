"""Build the proof's material: one dirty raw folder with every hazard, its certified output, raw tensors of each."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.proof import chats, documents, naive
from benchmarks.proof.hazard import Hazard, Record

ROOT = Path(__file__).resolve().parents[2]
TOKENIZERS = ROOT / "data_samples" / "tokenizers"
GOOD = {"forms": 240, "forms_ids": 60, "chats": 600, "tokens": 400}
EACH = 2
"""Bad records of each hazard."""
BESIDE = 7
"""Clean records in the batch of a bad one."""

LAYOUT = """
version: 1
name: {name}
kind: layout
files: ["{name}/*.jsonl"]
ignore: ["{name}/images/*"]
columns:
  id: {{type: text}}
layout:
  words: words
  boxes: {{column: bboxes, order: xyxy, unit: pixel}}
  page: {{width: width, height: height}}
  labels: {{column: labels, names: [{labels}], form: {form}, scheme: bio}}
  image: {{column: image}}
tokenizer: {{path: "{tokenizer}"}}
model: {{family: layoutlmv3, config: "{config}"}}
quarantine: {{max_rate: 0.9}}
"""
CHAT = """
version: 1
name: chats
kind: chat
files: ["chats/*.jsonl"]
columns:
  id: {{type: text}}
chat:
  source: {{format: messages, column: messages}}
  max_tokens: 512
tokenizer: {{path: "{tokenizer}"}}
model: {{config: "{config}"}}
quarantine: {{max_rate: 0.9}}
"""
TOKENS = """
version: 1
name: tokens
kind: tokens
files: ["tokens/*.jsonl"]
columns:
  id: {{type: text}}
tokens: {{input_ids: input_ids, labels: labels, attention_mask: attention_mask}}
model: {{config: "{config}"}}
quarantine: {{max_rate: 0.9}}
"""


def build(place: Path) -> dict[str, Any]:
    """Make everything below ``place``: raw/, schemas/, models/, clean/ and trials/; returns what was found."""
    shutil.rmtree(place, ignore_errors=True)
    raw = place / "raw"
    folders = {name: raw / name for name in GOOD}
    for folder in folders.values():
        folder.mkdir(parents=True)
    (folders["forms"] / "images").mkdir()
    hazards = [*documents.hazards(folders["forms"]), *chats.chat_hazards(), *chats.token_hazards()]
    makers: dict[str, Callable[[int], Record]] = {
        "forms": lambda n: documents.page(n, folders["forms"], ids=False),
        "forms_ids": lambda n: documents.page(n, folders["forms_ids"], ids=True),
        "chats": chats.chat,
        "tokens": chats.tokens,
    }
    bad = _write(folders, makers, hazards)
    _models(place)
    _schemas(place)
    command = [
        sys.executable,
        "-m",
        "pipeline",
        "run",
        str(raw),
        str(place / "clean"),
        "--schemas",
        str(place / "schemas"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    table = _judged(place / "clean", hazards)
    _trials(place, makers, hazards, bad, table)
    _tensor_trials(place, makers, table)
    (place / "hazards.json").write_text(json.dumps(table, indent=2))
    return table


def _write(
    folders: dict[str, Path], makers: dict[str, Callable[[int], Record]], hazards: list[Hazard]
) -> dict[str, Record]:
    """Write the raw files; returns one bad record a hazard."""
    bad: dict[str, Record] = {}
    for schema, make in makers.items():
        lines = [make(n) for n in range(GOOD[schema])]
        for k, hazard in enumerate([h for h in hazards if h.schema == schema]):
            for copy in range(EACH):
                record = hazard.spoil(make(10_000 + 10 * k + copy))
                lines.append({**record, "id": f"{hazard.name} {copy}"})
                bad.setdefault(hazard.name, record)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folders[schema] / "all.jsonl").write_text(text)
    return bad


def _models(place: Path) -> None:
    """Configs of the two small models."""
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
    layout = {
        "model_type": "layoutlmv3",
        **sizes,
        "vocab_size": _size("tiny-layoutlmv3"),
        "max_position_embeddings": 514,
        "max_2d_position_embeddings": 1024,
        "coordinate_size": 22,
        "shape_size": 20,
        "input_size": 224,
        "patch_size": 16,
        "type_vocab_size": 1,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    llama = {
        "model_type": "llama",
        **sizes,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "rope_theta": 10000.0,
    }
    for name, config in (
        ("layoutlmv3", layout),
        ("llama", llama | {"vocab_size": _size("tiny-llama3")}),
        ("tokens", llama | {"vocab_size": chats.VOCABULARY}),
    ):
        (place / "models" / name).mkdir(parents=True)
        (place / "models" / name / "config.json").write_text(json.dumps(config))


def _size(tokenizer: str) -> int:
    import tokenizers

    return int(
        tokenizers.Tokenizer.from_file(str(TOKENIZERS / tokenizer / "tokenizer.json")).get_vocab_size()
    )


def _schemas(place: Path) -> None:
    (place / "schemas").mkdir()
    labels = ", ".join(documents.LABELS)
    for name, form in (("forms", "names"), ("forms_ids", "ids")):
        text = LAYOUT.format(
            name=name,
            labels=labels,
            form=form,
            tokenizer=TOKENIZERS / "tiny-layoutlmv3",
            config=place / "models/layoutlmv3",
        )
        (place / "schemas" / f"{name}.yaml").write_text(text)
    chat = CHAT.format(tokenizer=TOKENIZERS / "tiny-llama3", config=place / "models/llama")
    (place / "schemas" / "chats.yaml").write_text(chat)
    (place / "schemas" / "tokens.yaml").write_text(TOKENS.format(config=place / "models/tokens"))


def _judged(clean: Path, hazards: list[Hazard]) -> dict[str, Any]:
    """What the pipeline said of each hazard's records."""
    from pipeline.certificate.folder import read_certificate
    from pipeline.train.load import load_certified

    statement = read_certificate(clean)
    said: dict[str, set[str]] = {}
    for schema in GOOD:
        import pyarrow as pa

        for name in statement.predicate["quarantine"][schema]["parts"]:
            table = pa.ipc.open_stream(pa.memory_map(str(clean / "quarantine" / schema / name))).read_all()
            for row in table.to_pylist():
                record = (
                    json.loads((row["raw"] or b"{}").decode("utf-8", "surrogatepass")) if row["raw"] else {}
                )
                key = _hazard(record.get("id", ""))
                said.setdefault(key, set()).update(f"quarantine {r['reason']}" for r in row["reasons"])
        for row in load_certified(clean, schema, backend="rows"):
            key = _hazard(row["id"])
            if key:
                said.setdefault(key, set()).update(
                    f"certified {note}" for note in row["notes"] or ["without a note"]
                )
    return {
        h.name: {
            "reason": h.reason,
            "schema": h.schema,
            "outcome": h.outcome,
            "said": sorted(said.get(h.name, ())),
        }
        for h in hazards
    }


def _hazard(identity: str) -> str:
    """The hazard that a record's id names; "" for clean ones."""
    name, _, copy = identity.rpartition(" ")
    return name if copy.isdigit() else ""


def _trials(
    place: Path,
    makers: dict[str, Callable[[int], Record]],
    hazards: list[Hazard],
    bad: dict[str, Record],
    table: dict[str, Any],
) -> None:
    """A batch of raw tensors a hazard: the bad record among clean ones, as a usual script prepares them."""
    (place / "trials").mkdir()
    prepare: dict[str, Callable[[Record], naive.Arrays]] = {
        "forms": naive.Documents(TOKENIZERS / "tiny-layoutlmv3", place / "raw/forms"),
        "forms_ids": naive.Documents(TOKENIZERS / "tiny-layoutlmv3", place / "raw/forms_ids"),
        "chats": naive.Chats(TOKENIZERS / "tiny-llama3"),
        "tokens": naive.tokenized,
    }
    for number, hazard in enumerate(hazards):
        clean = [prepare[hazard.schema](makers[hazard.schema](n)) for n in range(BESIDE)]
        try:
            spoilt = prepare[hazard.schema](bad[hazard.name])
        except Exception as error:  # whatever a script would die of is the result
            text = str(error).splitlines()[0].replace(f"{place}/raw/", "")
            table[hazard.name]["script"] = f"{type(error).__name__}: {text[:90]}"
            continue
        batch = [spoilt, *clean]
        width = max(len(row["input_ids"]) for row in batch)
        arrays = {
            key: np.stack([_widen(key, row[key], width, hazard.schema) for row in batch]) for key in spoilt
        }
        file = f"{number:02d}.npz"
        np.savez_compressed(place / "trials" / file, **arrays)
        table[hazard.name]["trial"] = file


def _widen(key: str, values: Any, width: int, schema: str) -> Any:
    if key == "pixel_values" or len(values) == width:
        return values
    pad = {
        "labels": -100,
        "attention_mask": 0,
        "bbox": 0,
        "input_ids": 1 if schema.startswith("forms") else 2,
    }[key]
    more = np.full((width - len(values), *values.shape[1:]), pad, values.dtype)
    return np.concatenate([values, more])


def _tensor_trials(place: Path, makers: dict[str, Callable[[int], Record]], table: dict[str, Any]) -> None:
    """Hazards that no raw record can state: a script makes them, and the types of a shard cannot hold them."""
    prepare = naive.Documents(TOKENIZERS / "tiny-layoutlmv3", place / "raw/forms")
    batch = [prepare(makers["forms"](n)) for n in range(BESIDE + 1)]
    clean = {key: np.stack([row[key] for row in batch]) for key in batch[0]}
    pixels = clean["pixel_values"].astype(np.float32)
    pixels[0, 0, 5, 5] = np.nan
    types = np.zeros_like(clean["input_ids"])
    types[0, 3] = 1
    for name, reason, said, change in (
        ("one NaN pixel", "pixels_not_finite", "pixels are stored as uint8", {"pixel_values": pixels}),
        (
            "token type = rows of its table",
            "token_type_out_of_range",
            "token types are the model's",
            {"token_type_ids": types},
        ),
        (
            "boxes as floats",
            "bbox_arity",
            "boxes are stored as int16",
            {"bbox": clean["bbox"].astype(np.float32)},
        ),
    ):
        file = f"{name.replace(' ', '_')}.npz"
        np.savez_compressed(place / "trials" / file, **{**clean, **change})
        table[name] = {"reason": reason, "schema": "forms", "outcome": "type", "said": [said], "trial": file}
