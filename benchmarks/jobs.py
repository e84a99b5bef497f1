"""The two users' jobs, each against its floor and its peer, in turns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import inputs
from benchmarks.measure import Cost, cost, median
from benchmarks.peers import LABELS, SYSTEM

QUICK = {"chat": 2_000, "layout": 500}
FULL = {"chat": 20_000, "layout": 5_000}


@dataclass(frozen=True, slots=True)
class Job:
    """Commands of one job: ours, the floor and the peer."""

    name: str
    ours: list[str]
    floor: list[str]
    peer: list[str]
    clean: Path


def chat_job(folder: Path, rows: int, tokenizer: Path) -> Job:
    """The spreadsheet for Llama 3."""
    raw = folder / "chat"
    raw.mkdir()
    pairs = inputs.chat_rows(rows)
    inputs.write_xlsx(raw / "rows.xlsx", pairs)
    (folder / "rendered.json").write_text(json.dumps([_rendered(*pair) for pair in pairs]), "utf-8")
    schema = folder / "chat.yaml"
    schema.write_text(
        f"""version: 1
name: chat
kind: chat
files: ["*.xlsx"]
chat:
  source: {{format: columns, prompt: Sentence, answer: Description, system: {json.dumps(SYSTEM)}}}
  max_tokens: 1024
  template: {_template(tokenizer)}
tokenizer: {{path: {json.dumps(str(tokenizer))}}}
""",
        "utf-8",
    )
    return _job("chat", folder, raw, schema, [str(raw / "rows.xlsx")], "rendered.json", tokenizer)


def layout_job(folder: Path, rows: int, tokenizer: Path) -> Job:
    """Forms for LayoutLMv3."""
    raw = folder / "layout"
    raw.mkdir()
    pages = inputs.pages(rows)
    inputs.write_jsonl(raw / "pages.jsonl", pages)
    (folder / "words.json").write_text(json.dumps([page["words"] for page in pages]), "utf-8")
    schema = folder / "layout.yaml"
    schema.write_text(
        f"""version: 1
name: layout
kind: layout
files: ["*.jsonl"]
layout:
  words: words
  boxes: {{column: bboxes, order: xyxy, unit: pixel}}
  page: {{width: width, height: height}}
  labels: {{column: labels, names: {json.dumps(LABELS)}}}
tokenizer: {{path: {json.dumps(str(tokenizer))}}}
model: {{family: layoutlmv3}}
""",
        "utf-8",
    )
    return _job("layout", folder, raw, schema, [str(raw / "pages.jsonl")], "words.json", tokenizer)


def _job(
    name: str, folder: Path, raw: Path, schema: Path, source: list[str], prepared: str, tokenizer: Path
) -> Job:
    clean = folder / f"{name}-clean"
    ours = ["-m", "pipeline", "run", str(raw), str(clean), "--schema", str(schema), "--log-format", "json"]
    return Job(
        name,
        [*ours, "--no-fsync"],
        ["-m", "benchmarks.peers", f"{name}-floor", str(folder / prepared), str(tokenizer)],
        ["-m", "benchmarks.peers", name, *source, str(tokenizer)],
        clean,
    )


def measure(job: Job, rounds: int, say: Callable[[str], None]) -> dict[str, float | str]:
    """Run the three in turns and take the median of each."""
    costs: dict[str, list[Cost]] = {"ours": [], "floor": [], "peer": []}
    for _ in range(rounds):
        shutil.rmtree(job.clean, ignore_errors=True)
        for who, command in (("ours", job.ours), ("floor", job.floor), ("peer", job.peer)):
            costs[who].append(cost(command, _single_threaded()))
            say(f"{job.name} {who}: {costs[who][-1].cpu_s:.2f} CPU s")
    ours, floor, peer = (median(costs[who]) for who in ("ours", "floor", "peer"))
    return {
        "job": job.name,
        "ours_cpu_s": round(ours.cpu_s, 3),
        "ours_wall_s": round(ours.wall_s, 3),
        "floor_cpu_s": round(floor.cpu_s, 3),
        "peer_cpu_s": round(peer.cpu_s, 3),
        "peak_rss_mb": round(ours.peak_rss_mb, 1),
        "ours_to_floor": round(ours.cpu_s / floor.cpu_s, 3),
        "peer_to_ours": round(peer.cpu_s / ours.cpu_s, 2),
    }


def _single_threaded() -> dict[str, str]:
    """One thread everywhere: CPU seconds of several threads on two cores cannot be compared."""
    return {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "POLARS_MAX_THREADS": "1"}


def _template(tokenizer: Path) -> str:
    """A template with generation markers: the tokenizer's own, or the training variant beside the folder."""
    training = tokenizer.parent / "chat_templates" / "llama3_training.jinja"
    return json.dumps({"file": str(training)}) if training.exists() else "{}"


def _rendered(prompt: str, answer: str) -> str:
    def turn(role: str, text: str) -> str:
        return f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>"

    return "<|begin_of_text|>" + turn("system", SYSTEM) + turn("user", prompt) + turn("assistant", answer)
