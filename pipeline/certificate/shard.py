"""One shard against what the certificate says of it."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from pipeline.certificate.failure import Code, Failure, failure
from pipeline.shards.column import ColumnStatistics, merge
from pipeline.shards.part import Part
from pipeline.shards.statistics import measure

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
