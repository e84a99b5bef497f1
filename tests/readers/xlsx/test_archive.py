"""Parts of an archive: all their bytes, or a fault; ``zipfile`` is the oracle."""

from __future__ import annotations

import random
import struct
import zipfile
from pathlib import Path

import pytest

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx.archive import CHUNK_BYTES, WorkbookArchive

PART = "xl/worksheets/sheet1.xml"
METHODS = (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def archive(path: Path, data: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("xl/workbook.xml", "<workbook/>")
        made.writestr(PART, data)
    return path


def whole(path: Path, size: int = 1000) -> bytes:
    return b"".join(WorkbookArchive(path).chunks(PART, size))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [0, 1, 70_000, 6_000_000])
def test_a_part_is_all_its_bytes_whatever_its_method(tmp_path: Path, method: int, size: int) -> None:
    data = random.Random(size).randbytes(size // 2) + b"x" * (size - size // 2)
    assert whole(archive(tmp_path / "a.zip", data, method)) == data


@pytest.mark.parametrize("more", [*range(-260, 261, 20), -1, 1])
def test_what_is_inflated_to_the_last_byte_of_a_piece_is_whole(tmp_path: Path, more: int) -> None:
    data = b"\0" * (2 * CHUNK_BYTES + more)
    assert whole(archive(tmp_path / "a.zip", data)) == data


def test_chunks_are_as_long_as_they_are_asked_for(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", random.Random(0).randbytes(1_000_000))
    chunks = [len(chunk) for chunk in WorkbookArchive(path).chunks(PART, 300_000, first=10_000)]
    assert 10_000 <= chunks[0] < 300_000
    assert all(300_000 <= size < 400_000 for size in chunks[1:-1])
    assert sum(chunks) == 1_000_000


@pytest.mark.parametrize("field", ["checksum", "length"])
def test_a_part_that_is_not_what_the_archive_says_is_a_fault(tmp_path: Path, field: str) -> None:
    path = archive(tmp_path / "a.zip", b"<worksheet/>" * 100)
    with zipfile.ZipFile(path) as made:
        info = made.getinfo(PART)
    stored = struct.pack("<I", info.CRC if field == "checksum" else info.file_size)
    other = struct.pack("<I", info.CRC ^ 1 if field == "checksum" else info.file_size - 1)
    data = path.read_bytes()
    directory = data.rindex(b"PK\x01\x02")
    path.write_bytes(data[:directory] + data[directory:].replace(stored, other, 1))
    with pytest.raises(TaskFault) as caught:
        whole(path)
    assert caught.value.found == f"{PART} does not inflate (BadZipFile)"


def test_a_damaged_part_is_a_fault_and_never_other_bytes(tmp_path: Path) -> None:
    text = b"".join(b"<c>%d</c>" % i for i in range(20_000))
    path = archive(tmp_path / "a.zip", text)
    sound = path.read_bytes()
    chance, refused = random.Random(1), 0
    for _ in range(200):
        data = bytearray(sound)
        data[chance.randrange(200, len(data) - 200)] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            assert whole(path) == text
        except TaskFault:
            refused += 1
    assert refused > 190


def test_a_part_longer_than_its_limit_is_a_fault(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", b"x" * 50_000_000)
    with pytest.raises(TaskFault) as caught:
        for _ in WorkbookArchive(path).chunks(PART, limit=10_000_000):
            pass
    assert caught.value.reason == "file_limit"
