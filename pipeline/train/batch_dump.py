"""The last batches of each rank, on the disk before they run: when a card dies, they say what it held."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import InputError
from pipeline.train.rows import Int64s

KEPT = 64
"""Steps kept at least: a GPU's error comes up a few launches after its cause."""


class BatchDump:
    """Writes the rows of each step of one rank, a line each, before the step is launched.

    Args:
        path: the file.
        head: where the rows come from (folder, data set, root, model), the first line.
    """

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self._path, self._head = path, json.dumps(dict(head), sort_keys=True)
        self._lines: list[str] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._fresh()

    def write(self, step: int, rows: Int64s, width: int) -> None:
        """Note a step of this rank, int64 [micro-batches, samples]."""
        line = json.dumps({"step": step, "width": width, "rows": rows.tolist()})
        self._lines.append(line)
        if len(self._lines) >= 2 * KEPT:
            del self._lines[:-KEPT]
            self._file.close()
            self._file = self._fresh()
        else:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def _fresh(self) -> Any:
        """The file anew, with what is kept: beside, then in its place."""
        beside = self._path.with_suffix(".tmp")
        beside.write_text("\n".join([self._head, *self._lines]) + "\n")
        os.replace(beside, self._path)  # noqa: PTH105 - one call that replaces on every system
        return self._path.open("a")


@dataclass(frozen=True, slots=True)
class Dumped:
    """One step of a dump: its number, padded length and rows [micro-batches][samples]."""

    step: int
    width: int
    rows: tuple[tuple[int, ...], ...]


def read_dump(path: Path) -> tuple[dict[str, Any], list[Dumped]]:
    """The head and the steps of a dump; a line cut short by the crash is left out.

    Raises:
        InputError: the file is no dump.
    """
    try:
        lines = path.read_text().splitlines()
        head = json.loads(lines[0])
        if not isinstance(head, dict) or "dataset" not in head:
            raise ValueError
    except (OSError, ValueError, IndexError) as error:
        raise InputError(
            "not a dump of batches", where=str(path), found=type(error).__name__,
            expected="what `train --dump-batches` writes",
        ) from None  # fmt: skip
    return head, list(_steps(lines[1:]))


def _steps(lines: list[str]) -> Iterator[Dumped]:
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            return
        rows = tuple(tuple(int(row) for row in micro) for micro in value["rows"])
        yield Dumped(int(value["step"]), int(value["width"]), rows)
