"""Arrow files that no certificate speaks of: whether each is at least whole.

They are read in a process of their own: there are bytes on which the Arrow reader ends its process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from pipeline.certificate.failure import Code, Failure, failure
from pipeline.certificate.shard import inspect, words

FILE_MAGIC = b"ARROW1"
SECONDS = 600
"""Longest time that reading the files may take."""


def broken_files(folder: Path, names: Sequence[str]) -> list[Failure]:
    """The Arrow files of a folder that are cut or otherwise unreadable, in order."""
    broken = []
    left = list(names)
    while left:
        said = _read_apart(folder, left)
        broken += [
            failure(Code.SHARD_CORRUPT, name, text, "a whole Arrow file") for name, text in said if text
        ]
        left = left[len(said) :]
        if left:
            broken.append(
                failure(Code.SHARD_CORRUPT, left.pop(0), "ends the Arrow reader", "a whole Arrow file")
            )
    return broken


def _read_apart(folder: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """What a process of its own says of each file, as far as it got."""
    paths = "\0".join(str(folder / name) for name in names)
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command, input=paths, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        output = done.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else ""
    return list(zip(names, output.split("\0")[:-1], strict=False))


def judge(path: Path) -> str:
    """What is wrong with an Arrow stream or file, in words; "" when it is whole and valid."""
    try:
        with path.open("rb") as file:
            is_file = file.read(len(FILE_MAGIC)) == FILE_MAGIC
        if not is_file:
            inspect(path)
            return ""
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                reader.get_batch(number).validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        return words(error)
    return ""


if __name__ == "__main__":
    for path in sys.stdin.read().split("\0"):
        sys.stdout.write(judge(Path(path)) + "\0")
        sys.stdout.flush()
