"""The batch dump: each rank writes the rows of its last batches to the disk before it runs them.

After a crash on the GPU, the dump shows which samples were on it.
"""

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
"""Smallest number of steps in the file: an error of a GPU appears a few launches after its cause."""


class BatchDump:
    """Writes the rows of each step of one rank, one line per step, before the launch of the step.

    Args:
        path: the file.
        head: the origin of the rows (folder, data set, root, model), written to the first line.
    """

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self._path, self._head = path, json.dumps(dict(head), sort_keys=True)
        self._lines: list[str] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._rewrite()

    def write(self, step: int, rows: Int64s, width: int) -> None:
        """Write the rows of a step of this rank, int64 [micro-batches, samples], and its padded length."""
        line = json.dumps({"step": step, "width": width, "rows": rows.tolist()})
        self._lines.append(line)
        if len(self._lines) >= 2 * KEPT:
            del self._lines[:-KEPT]
            self._file.close()
            self._file = self._rewrite()
        else:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rewrite(self) -> Any:
        """Write the file again with the kept lines, through a temporary file, and open it to append."""
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text("\n".join([self._head, *self._lines]) + "\n")
        os.replace(temporary, self._path)  # noqa: PTH105 - one call that replaces on every system
        return self._path.open("a")


@dataclass(frozen=True, slots=True)
class Dumped:
    """One step of a dump: its number, padded length and rows [micro-batches][samples]."""

    step: int
    width: int
    rows: tuple[tuple[int, ...], ...]


def read_dump(path: Path) -> tuple[dict[str, Any], list[Dumped]]:
    """The head and the steps of a dump, without a line that the crash cut short.

    Raises:
        InputError: the file is not a dump.
    """
    try:
        lines = path.read_text().splitlines()
        head = json.loads(lines[0])
        if not isinstance(head, dict) or "dataset" not in head:
            raise ValueError
    except (OSError, ValueError, IndexError) as error:
        raise InputError(
            "not a dump of batches",
            where=str(path),
            found=type(error).__name__,
            expected="what `train --dump-batches` writes",
        ) from None
    return head, list(_steps(lines[1:]))


def _steps(lines: list[str]) -> Iterator[Dumped]:
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            return
        rows = tuple(tuple(int(row) for row in micro) for micro in value["rows"])
        yield Dumped(int(value["step"]), int(value["width"]), rows)
