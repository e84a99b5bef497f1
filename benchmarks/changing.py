"""A raw folder that changes from run to run, and the schema that reads it."""

from __future__ import annotations

import json
import random
from pathlib import Path

SCHEMA = """\
version: 1
name: notes
kind: table
files: ["**/*.jsonl", "**/*.csv"]
columns:
  key: {type: text}
  text: {type: text}
  stars: {type: integer, min: 1, max: 5}
table: {text: null, label: stars}
quarantine: {max_rate: 0.9}
output: {shard_rows: 100, batch_rows: 25}
"""
SHARDS = 4
"""Shards of a file: three of certified rows, one of the quarantine."""


class RawFolder:
    """Between three and twelve files of 300 rows; a name has one of five contents."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path, self._random = path, chance
        path.mkdir()
        for number in range(6):
            self._write(f"{number}.jsonl")

    def change(self) -> int:
        """Edit, add, remove or rename one to four files, or none; how many there may be to read again."""
        times = self._random.choice((0, 1, 1, 2, 3, 4))
        for _ in range(times):
            self._change_one()
        return times

    def _change_one(self) -> None:
        files = sorted(path.name for path in self.path.iterdir())
        action = self._random.choice(("edit", "edit", "edit", "add", "remove", "rename"))
        if action == "edit":
            self._write(self._random.choice(files))
        elif action == "add" and len(files) < 12:
            self._write(f"{self._random.randrange(100)}.jsonl")
        elif action == "remove" and len(files) > 3:
            (self.path / self._random.choice(files)).unlink()
        elif action == "rename":
            (self.path / self._random.choice(files)).rename(
                self.path / f"{self._random.randrange(100)}.jsonl"
            )

    def _write(self, name: str) -> None:
        seed = self._random.randrange(5)
        rows = [
            {"key": f"{seed}-{row}", "text": f"text {seed} {row} of {name}" * 3, "stars": (row + seed) % 6}
            for row in range(300)
        ]
        (self.path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
