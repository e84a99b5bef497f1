"""``python -m benchmarks.incremental``: many raw files, one changed: what the rerun costs as a ratio to the full run.

Each file holds chats that are tokenized, so that a full run does real work; no two rows are the same. In this order:
a full run; one with nothing changed; one with one file changed; one with nothing changed after that, which hashes anew
what was written just before. Printed, as one JSON object: seconds of wall clock and CPU of each, how many files of the
output each touched, and the ratios to the full run. CPU seconds are those to look at on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from benchmarks.inputs import Writer
from benchmarks.measure import Cost, cost

SCHEMA = """\
version: 1
name: answers
kind: chat
files: ["**/*.jsonl"]
chat:
  source: {{format: columns, prompt: question, answer: answer, system: Be brief.}}
  max_tokens: 1024
tokenizer: {{path: {tokenizer}}}
"""


def main() -> None:
    """Make the files, run three times, print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.incremental", description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="rows of each file")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        tokenizer = Path(__file__).resolve().parent.parent / "data_samples" / "tokenizers" / "tiny-llama3"
        (place / "answers.yaml").write_text(SCHEMA.format(tokenizer=tokenizer))
        (place / "raw").mkdir()
        chats = Chats()
        for number in range(options.files):
            chats.fill(place / "raw" / f"{number:04}.jsonl", options.rows)
        result = _measure(place, chats, options)
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


class Chats:
    """Chats of 40 and 60 words, none like another: passages put together anew and numbered."""

    def __init__(self) -> None:
        writer = Writer(7)
        self._passages = [writer.passage(20) for _ in range(20_000)]
        self._random = random.Random(7)
        self._rows = 0

    def fill(self, path: Path, rows: int) -> None:
        """Write a file of so many chats."""
        with path.open("w") as file:
            for _ in range(rows):
                self._rows += 1
                five = self._random.choices(self._passages, k=5)
                row = {"question": f"{self._rows}: " + " ".join(five[:2]), "answer": " ".join(five[2:])}
                file.write(json.dumps(row) + "\n")


def _measure(place: Path, chats: Chats, options: argparse.Namespace) -> dict[str, object]:
    full, touched_full = _run(place, options.workers)
    nothing, touched_nothing = _run(place, options.workers)
    chats.fill(place / "raw" / f"{options.files // 2:04}.jsonl", options.rows)
    changed, touched_changed = _run(place, options.workers)
    again, touched_again = _run(place, options.workers)
    return {
        "files": options.files,
        "rows": options.files * options.rows,
        "full": _facts(full, touched_full),
        "nothing_changed": _facts(nothing, touched_nothing),
        "one_changed": _facts(changed, touched_changed),
        "nothing_changed_again": _facts(again, touched_again),
        "one_changed_ratio_wall": round(changed.wall_s / full.wall_s, 4),
        "one_changed_ratio_cpu": round(changed.cpu_s / full.cpu_s, 4),
        "nothing_changed_ratio_wall": round(nothing.wall_s / full.wall_s, 4),
        "nothing_changed_ratio_cpu": round(nothing.cpu_s / full.cpu_s, 4),
    }


def _run(place: Path, workers: int) -> tuple[Cost, int]:
    clean = place / "clean"
    before = _stamps(clean)
    spent = cost(
        [
            "-m",
            "pipeline",
            "run",
            str(place / "raw"),
            str(clean),
            "--schema",
            str(place / "answers.yaml"),
            "--workers",
            str(workers),
            "--log-format",
            "json",
            "--record",
            str(place / "record.json"),
        ]
    )
    print(json.loads((place / "record.json").read_text())["seconds"], file=sys.stderr, flush=True)
    after = _stamps(clean)
    return spent, sum(before.get(name) != stamp for name, stamp in after.items())


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".previous" not in path.parts)
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def _facts(spent: Cost, touched: int) -> dict[str, float]:
    return {"wall_s": round(spent.wall_s, 2), "cpu_s": round(spent.cpu_s, 2), "files_touched": touched}


if __name__ == "__main__":
    main()
