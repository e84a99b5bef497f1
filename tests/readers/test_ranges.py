"""Ranges: a large file cut on record borders gives the records, rows and findings of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.readers import encoding, formats, ranges
from pipeline.readers.csv_quotes import find_records
from pipeline.readers.discover import Claim
from pipeline.readers.ranges import cut_ranges as cut
from tests.readers.tables import Result, read_bytes, schema, text_fields

COLUMNS = text_fields("id", "text")


def read(tmp_path: Path, data: bytes, name: str, size: int, chunk: int) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "RANGE_BYTES", size)
        patch.setattr(ranges.cut_ranges, "__defaults__", (size,))
        patch.setattr(encoding, "CHUNK_BYTES", chunk)
        patch.setattr(formats, "BATCH_ROWS", 3)
        return read_bytes(tmp_path, data, name, COLUMNS, schema())


LINE = st.sampled_from(
    ["a,b\n", '"q,1","x\ny"\n', "\n", 'a,"open\n', 'a,"x"y\n', "ragged\n", "1,2,3\n", 'é,"😀""z"\r\n']
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINE, max_size=30), st.integers(8, 60), st.integers(3, 40))
def test_csv_in_ranges_and_small_pieces_reads_like_the_whole(
    tmp_path: Path, lines: list[str], size: int, chunk: int
) -> None:
    data = ("id,text\n" + "".join(lines)).encode()
    whole = read_bytes(tmp_path, data, "x.csv", COLUMNS, schema())
    parts = read(tmp_path, data, "x.csv", size, chunk)
    assert parts.rows == whole.rows
    assert parts.cells == whole.cells
    assert parts.reasons == whole.reasons
    assert parts.dropped == whole.dropped


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(['{"id":"é"}\n', "\n", "[1]\r\n", "broken\n"]), max_size=30),
    st.integers(8, 60),
    st.integers(3, 40),
)
def test_json_lines_in_ranges_read_like_the_whole(
    tmp_path: Path, lines: list[str], size: int, chunk: int
) -> None:
    data = "".join(lines).encode()
    whole = read_bytes(tmp_path, data, "x.jsonl", COLUMNS, schema())
    parts = read(tmp_path, data, "x.jsonl", size, chunk)
    assert parts.rows == whole.rows
    assert parts.raw == whole.raw
    assert parts.dropped == whole.dropped


def test_cuts_depend_on_the_bytes_alone_and_know_their_line(tmp_path: Path) -> None:
    data = b"".join(b'%d,"two\nlines"\n' % i for i in range(1000))
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    claim = Claim(0, "x.csv", path, "csv", len(data))
    whole = formats.Partition("x.csv", 0, "csv")

    def borders(block: bytes, final: bool) -> object:
        return find_records(block, ord(","), final=final, limit=2**20)

    found = []
    for chunk in (64, 4096):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(encoding, "CHUNK_BYTES", chunk)
            found.append(cut(claim, schema(), whole, borders, 2000))  # type: ignore[arg-type]
    assert found[0] == found[1]
    assert len(found[0]) > 3
    for part in found[0]:
        assert part.first_row == data[: part.start].count(b"\n") + 1
        assert data[part.start : part.start + 8].split(b",")[0].isdigit()
