"""One shard against what the certificate says of it; and Arrow files that no certificate speaks of.

They are read in a process of their own: there are bytes on which the Arrow reader ends its process.
"""

from __future__ import annotations

import hashlib
import mmap
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from pipeline.certificate.failures import Code, Failure, failure
from pipeline.shards.files import Part
from pipeline.shards.statistics import ColumnStatistics, measure, merge

# One shard against what the certificate says of it.


END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The last eight bytes of a stream that was closed. A stream cut at a batch border lacks them and opens all the same,
with fewer rows."""


def present(path: Path, name: str, part: Part) -> Failure | None:
    """Whether a shard is there with its size."""
    try:
        size = path.stat().st_size
    except OSError as error:
        return failure(Code.SHARD_MISSING, name, error.strerror or "no such file", f"{part.bytes} bytes")
    if not path.is_file():
        return failure(Code.SHARD_MISSING, name, "not a file", f"{part.bytes} bytes")
    if size != part.bytes:
        return failure(Code.SHARD_SIZE, name, f"{size} bytes", f"{part.bytes} bytes")
    return None


def compare(path: Path, name: str, part: Part, fields: Sequence[Sequence[str]] | None) -> list[Failure]:
    """Everything wrong with a shard: digest, Arrow validity, schema, rows, statistics.

    Arrow reads the bytes only when their digest is right: on some altered ones it ends the whole process.

    ``fields`` is the certificate's schema of its data set, None for the quarantine.
    """
    if lost := present(path, name, part):
        return [lost]
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            digest = hashlib.sha256(view).hexdigest()
        if digest != part.sha256:
            return [failure(Code.SHARD_ALTERED, name, f"sha256 {digest}", f"sha256 {part.sha256}")]
        return list(_contents(path, name, part, fields))
    except (OSError, ValueError) as error:
        return [failure(Code.SHARD_CORRUPT, name, type(error).__name__, "a readable file")]


def _contents(path: Path, name: str, part: Part, fields: Sequence[Sequence[str]] | None) -> Iterator[Failure]:
    try:
        schema, rows, facts = inspect(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        yield failure(Code.SHARD_CORRUPT, name, words(error), "a whole Arrow stream")
        return
    if fields is not None and (found := stored_fields(schema)) != [list(f[:2]) for f in fields]:
        yield failure(Code.SHARD_SCHEMA, name, _words(found), _words(fields))
    if rows != part.rows:
        yield failure(Code.SHARD_ROWS, name, f"{rows} rows", f"{part.rows} rows")
    for path_, known in sorted(part.statistics.items()):
        if facts.get(path_) != known:
            yield failure(Code.SHARD_STATISTICS, f"{name} {path_}", str(facts.get(path_)), str(known))


def inspect(path: Path) -> tuple[pa.Schema, int, dict[str, ColumnStatistics]]:
    """Read a whole stream with full validation: its schema, rows and statistics.

    Raises ``pyarrow.ArrowException``, ``OSError`` or ``ValueError`` where it is not a whole and valid stream.
    """
    with pa.memory_map(str(path)) as source:
        size = source.size()
        if size < len(END) or source.read_at(len(END), size - len(END)) != END:
            raise ValueError("no end-of-stream mark")
        stream = pa.ipc.open_stream(source)
        rows = 0
        facts: dict[str, ColumnStatistics] = {}
        for batch in stream:
            batch.validate(full=True)
            rows += batch.num_rows
            facts = merge((facts, measure(batch)))
        if source.tell() != size:
            raise ValueError("bytes after the end-of-stream mark")
        return stream.schema, rows, facts


def stored_fields(schema: pa.Schema) -> list[list[str]]:
    """Names and types of a stored schema, in words."""
    return [[field.name, str(field.type)] for field in schema]


def _words(fields: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{field[0]}: {field[1]}" for field in fields)


def words(error: Exception) -> str:
    """What Arrow says, on one line; its messages speak of buffers and offsets, never of cell text."""
    return " ".join(str(error).split())[:160] or type(error).__name__


# Arrow files that no certificate speaks of: whether each is at least whole.


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


def arrow_fault(path: Path) -> str:
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
        sys.stdout.write(arrow_fault(Path(path)) + "\0")
        sys.stdout.flush()
