"""Mutants of sound workbooks: each is read, or refused in words; nothing else ever happens, and no row is invented."""

from __future__ import annotations

import io
import random
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx import tasks
from tests.readers.handmade import Tab, number, row, shared, table, text, write

PARTS = (
    "xl/worksheets/sheet1.xml",
    "xl/sharedStrings.xml",
    "xl/styles.xml",
    "xl/workbook.xml",
    "xl/_rels/workbook.xml.rels",
)
LETTERS = b"<>/\"'=&;: \n\x00\xff\xc3x_0199AZrcvfst#!?-"


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    rows = table(("id", "text", "day")) + "".join(
        row(
            i, text(f"r{i}"), shared(i % 3), number("45292.5", "moment"), number("0.1"), '<c r="{at}" s="1"/>'
        )
        for i in range(2, 30)
    )
    texts = ("<t>one</t>", "<r><t>two</t></r><r><t> words</t></r>", "<t>a_x000D_\nb</t>")
    after = '<mergeCells count="1"><mergeCell ref="B2:B4"/></mergeCells>'
    return write(tmp_path / "sound.xlsx", Tab("data", rows, after=after), shared_texts=texts)


def mutated(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made))
        match chance.randrange(5):
            case 0:
                made[at] = chance.choice(LETTERS)
            case 1:
                made[at] ^= 1 << chance.randrange(8)
            case 2:
                del made[at : at + chance.randint(1, 30)]
            case 3:
                made[at:at] = made[at : at + chance.randint(1, 60)]
            case _:
                del made[at:]
        if not made:
            return b"\x00"
    return bytes(made)


def outcome(path: Path) -> int | None:
    """Rows read of a workbook; None where it is refused. Anything else is raised."""
    try:
        frames = list(tasks.inspect({"path": str(path), "sheets": "visible", "cells": 10**6, "head": 0}))
        count = 0
        for frame in frames[1:]:
            name = frames[0]["sheets"][frame["index"]][0]
            request = {
                "path": str(path),
                "sheet": name,
                "width": 5,
                "below": 1,
                "fill": True,
                "cells": 10**6,
                "rows": 10,
                "bytes": 2**20,
            }
            numbers: list[int] = []
            for part in tasks.read(request):
                if not isinstance(part, dict):
                    with pa.ipc.open_stream(pa.py_buffer(part)) as stream:
                        batch = stream.read_next_batch()
                    batch.validate(full=True)
                    numbers += batch.column(0).to_pylist()
            assert numbers == sorted(set(numbers))
            count += len(numbers)
        return count
    except TaskFault as fault:
        assert fault.reason in ("file_unreadable", "file_limit", "file_changed", "sheet_missing")
        return None


def test_the_sound_workbook_is_read(sound: Path) -> None:
    assert outcome(sound) == 28


@pytest.mark.parametrize("count", [150, pytest.param(6_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("part", PARTS)
def test_a_mutated_part_is_read_or_refused(sound: Path, tmp_path: Path, part: str, count: int) -> None:
    chance = random.Random(f"{part}{count}")
    with zipfile.ZipFile(sound) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    path = tmp_path / "mutant.xlsx"
    outcomes = []
    for _ in range(count):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, mutated(content, chance) if name == part else content)
        outcomes.append(outcome(path))
    assert any(rows is not None for rows in outcomes)


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_mutated_archive_is_read_or_refused(sound: Path, tmp_path: Path, count: int) -> None:
    chance = random.Random(count)
    data = sound.read_bytes()
    path = tmp_path / "mutant.xlsx"
    for _ in range(count):
        path.write_bytes(mutated(data, chance))
        outcome(path)


def test_an_archive_that_says_one_size_and_holds_another_is_read_or_refused(
    sound: Path, tmp_path: Path
) -> None:
    """A stored part whose length in the directory is far beyond the file."""
    data = bytearray(sound.read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 24 : at + 28] = (2**31 - 1).to_bytes(4, "little")
    path = tmp_path / "mutant.xlsx"
    path.write_bytes(data)
    outcome(path)
    assert zipfile.is_zipfile(io.BytesIO(data))
