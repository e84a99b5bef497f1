"""Checks of one shard against its certificate, and of Arrow files without a certificate.

Some altered bytes make the Arrow reader end its whole process. So this process reads a shard with Arrow only after its
digest is right, and a child process reads files that have no certificate.
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

END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The last eight bytes of a closed stream. A stream that is cut between two batches lacks them, and Arrow still opens
it, with fewer rows."""


def check_size(path: Path, name: str, part: Part) -> Failure | None:
    """The failure of a shard that does not exist or has another size; None where both are right."""
    try:
        size = path.stat().st_size
    except OSError as error:
        return failure(Code.SHARD_MISSING, name, error.strerror or "no such file", f"{part.bytes} bytes")
    if not path.is_file():
        return failure(Code.SHARD_MISSING, name, "not a file", f"{part.bytes} bytes")
    if size != part.bytes:
        return failure(Code.SHARD_SIZE, name, f"{size} bytes", f"{part.bytes} bytes")
    return None


def check_shard(path: Path, name: str, part: Part, fields: Sequence[Sequence[str]] | None) -> list[Failure]:
    """All failures of a shard: size, digest, Arrow validity, schema, rows, statistics.

    ``fields`` is the certificate's schema of the data set, None for the quarantine.
    """
    if wrong_size := check_size(path, name, part):
        return [wrong_size]
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            digest = hashlib.sha256(view).hexdigest()
        if digest != part.sha256:
            return [failure(Code.SHARD_ALTERED, name, f"sha256 {digest}", f"sha256 {part.sha256}")]
        return list(_check_content(path, name, part, fields))
    except (OSError, ValueError) as error:
        return [failure(Code.SHARD_CORRUPT, name, type(error).__name__, "a readable file")]


def _check_content(
    path: Path, name: str, part: Part, fields: Sequence[Sequence[str]] | None
) -> Iterator[Failure]:
    try:
        schema, rows, statistics = read_stream(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        yield failure(Code.SHARD_CORRUPT, name, _one_line(error), "a whole Arrow stream")
        return
    found = [[field.name, str(field.type)] for field in schema]
    if fields is not None and found != [list(field[:2]) for field in fields]:
        yield failure(Code.SHARD_SCHEMA, name, _names_and_types(found), _names_and_types(fields))
    if rows != part.rows:
        yield failure(Code.SHARD_ROWS, name, f"{rows} rows", f"{part.rows} rows")
    for column, stated in sorted(part.statistics.items()):
        if statistics.get(column) != stated:
            yield failure(Code.SHARD_STATISTICS, f"{name} {column}", str(statistics.get(column)), str(stated))


def read_stream(path: Path) -> tuple[pa.Schema, int, dict[str, ColumnStatistics]]:
    """Read an Arrow stream to its end with full validation: its schema, number of rows and statistics.

    Raises ``pyarrow.ArrowException``, ``OSError`` or ``ValueError`` where the stream is cut or invalid.
    """
    with pa.memory_map(str(path)) as source:
        size = source.size()
        if size < len(END) or source.read_at(len(END), size - len(END)) != END:
            raise ValueError("no end-of-stream mark")
        stream = pa.ipc.open_stream(source)
        rows = 0
        statistics: dict[str, ColumnStatistics] = {}
        for batch in stream:
            batch.validate(full=True)
            rows += batch.num_rows
            statistics = merge((statistics, measure(batch)))
        if source.tell() != size:
            raise ValueError("bytes after the end-of-stream mark")
        return stream.schema, rows, statistics


def _names_and_types(fields: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{field[0]}: {field[1]}" for field in fields)


def _one_line(error: Exception) -> str:
    """The message of an Arrow error on one line. Arrow's messages name buffers and offsets, never cell text."""
    return " ".join(str(error).split())[:160] or type(error).__name__


# Arrow files without a certificate: only whether each can be read to its end.


FILE_MAGIC = b"ARROW1"
SECONDS = 600
"""Longest time, in seconds, that the child process may take."""


def broken_files(folder: Path, names: Sequence[str]) -> list[Failure]:
    """The Arrow files of a folder that are cut or otherwise unreadable, in order."""
    broken = []
    left = list(names)
    while left:
        checked = _check_in_child(folder, left)
        broken += [
            failure(Code.SHARD_CORRUPT, name, fault, "a whole Arrow file") for name, fault in checked if fault
        ]
        left = left[len(checked) :]
        if left:  # the child ended on the next file
            broken.append(
                failure(Code.SHARD_CORRUPT, left.pop(0), "ends the Arrow reader", "a whole Arrow file")
            )
    return broken


def _check_in_child(folder: Path, names: Sequence[str]) -> list[tuple[str, str]]:
    """(name, fault) of each file that a child process could check before it ended; the fault is "" for a good file."""
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
    """The fault of an Arrow stream or file, in words; "" when it is complete and valid."""
    try:
        with path.open("rb") as file:
            is_file = file.read(len(FILE_MAGIC)) == FILE_MAGIC
        if not is_file:
            read_stream(path)
            return ""
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                reader.get_batch(number).validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        return _one_line(error)
    return ""


if __name__ == "__main__":
    for path in sys.stdin.read().split("\0"):
        sys.stdout.write(arrow_fault(Path(path)) + "\0")
        sys.stdout.flush()
