"""Reading and casting against polars: the same file, in turns, each time in a fresh process."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

FULL = {"csv": 1_000_000, "jsonl": 1_000_000, "excel": 100_000}
QUICK = {"csv": 100_000, "jsonl": 100_000, "excel": 10_000}
ROUNDS = 5
COLUMNS = ("id", "text", "label", "score", "count", "flag")
NAMES = {"csv": "rows.csv", "jsonl": "rows.jsonl", "excel": "rows.xlsx"}
LETTERS = "etaoinshrdlucmfwypvbgkqjxz"


def jobs(*, quick: bool = False) -> list[dict[str, Any]]:
    """One row a format: CPU and wall-clock seconds of ours and of polars, medians of some rounds, and their ratio."""
    sizes, rounds = (QUICK, 1) if quick else (FULL, ROUNDS)
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for format_, count in sizes.items():
            path = folder / NAMES[format_]
            write(path, count)
            results.append(compare(format_, path, count, rounds))
            path.unlink()
    return results


def compare(format_: str, path: Path, count: int, rounds: int) -> dict[str, Any]:
    """Both readers in turns on one file."""
    costs: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        for who, found in costs.items():
            found.append(_run(who, format_, path))
            assert found[-1]["rows"] == count, (who, found[-1])
    ours, peer = (sorted(found, key=lambda c: c["cpu_s"])[len(found) // 2] for found in costs.values())
    return {
        "job": f"read-{format_}",
        "ours_cpu_s": round(ours["cpu_s"], 3),
        "ours_wall_s": round(ours["wall_s"], 3),
        "peer_cpu_s": round(peer["cpu_s"], 3),
        "peer_wall_s": round(peer["wall_s"], 3),
        "ratio": round(ours["cpu_s"] / peer["cpu_s"], 2),
        "peak_rss_mb": round(ours["rss_mb"]),
        "peer_rss_mb": round(peer["rss_mb"]),
    }


def write(path: Path, count: int) -> None:
    """Varied rows: some with delimiters, line breaks and quotes inside, some not ASCII."""
    match path.suffix:
        case ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(COLUMNS)
                writer.writerows((*row[:-1], str(row[-1]).lower()) for row in _rows(count))
        case ".jsonl":
            with path.open("w", encoding="utf-8") as file:
                for row in _rows(count):
                    file.write(json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) + "\n")
        case _:
            import xlsxwriter

            book = xlsxwriter.Workbook(path, {"constant_memory": True})
            sheet = book.add_worksheet()
            for place, row in enumerate([COLUMNS, *_rows(count)]):
                sheet.write_row(place, 0, row)
            book.close()


def _rows(count: int) -> Iterator[tuple[Any, ...]]:
    rng = random.Random(0)
    words = [
        "".join(rng.choice(LETTERS[: rng.randint(6, 26)]) for _ in range(rng.randint(2, 10)))
        for _ in range(20_000)
    ]
    words += ["Grüße", "naïve", "façade", "it’s", "5€"] * 20
    for i in range(count):
        text = " ".join(rng.choices(words, k=rng.randint(3, 16)))
        chance = rng.random()
        if chance < 0.2:
            text = text.replace(" ", ", ", 1)
        elif chance < 0.22:
            text = text.replace(" ", "\n", 1)
        elif chance < 0.25:
            text = text.replace(" ", ' "so" ', 1)
        label = rng.choice(("pos", "neg", "neutral"))
        yield f"r{i}", text, label, round(rng.random() * 100, 3), rng.randrange(10**6), rng.random() < 0.5


def _run(who: str, format_: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.reading_job", who, format_, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{who} {format_}: exit {done.returncode}\n{done.stderr[-2000:]}")
    cost: dict[str, float] = json.loads(done.stdout)
    return cost
