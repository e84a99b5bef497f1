"""A text comes whole, whatever its pieces, and whatever of them comes again."""

from __future__ import annotations

from itertools import chain, repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers import blocks as module
from pipeline.readers.blocks import TextPieces, pieces_of, text_pieces
from pipeline.readers.formats import Partition
from tests.readers.tables import Result, read_bytes, schema, text_fields


def taken(text: TextPieces, keeps: list[int]) -> tuple[bytes, list[bool]]:
    """The text of the pieces without the bytes that come again, and the flag of each piece."""
    whole, finals = b"", []
    for (data, final), wish in zip(text, chain(keeps, repeat(0)), strict=False):
        finals.append(final)
        keep = min(wish, len(data))
        whole += data[: len(data) - keep]
        text.repeat(keep)
    return whole, finals


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=6), st.lists(st.integers(0, 12), max_size=8))
def test_chunks_are_joined(chunks: list[bytes], keeps: list[int]) -> None:
    whole, finals = taken(pieces_of(chunks), keeps)
    assert whole == b"".join(chunks)
    assert finals[: len(chunks)] == [False] * (len(chunks) - 1) + [True] * bool(chunks)


@pytest.mark.parametrize("span", [(0, 0), (3, 0), (3, 17), (0, 26)])
@pytest.mark.parametrize("keeps", [[], [1, 2, 3], [0, 5, 0, 5], [4] * 12])
def test_a_range_of_a_file_comes_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: tuple[int, int], keeps: list[int]
) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 5)
    path = tmp_path / "x"
    path.write_bytes(b"abcdefghijklmnopqrstuvwxyz")
    start, end = span
    whole, finals = taken(text_pieces(path, Partition("x", 0, "csv", start=start, end=end)), keeps)
    assert whole == path.read_bytes()[start : end or None]
    assert finals[-1]


JSONL = b"".join(b'{"id":"%d","text":"t\xc3\xa9 %d"}%s\n' % (i, i * 7, b"\r" * (i > 30)) for i in range(40))
CSV = b"id,text\n" + b"".join(b'%d,"t, %d\n"\n' % (i, i * 7) for i in range(40)) + b'7,"last'


@pytest.mark.parametrize(("name", "data"), [("x.jsonl", JSONL), ("x.jsonl", JSONL + b'{"id'), ("x.csv", CSV)])
@pytest.mark.parametrize("size", [1, 7, 31, 64, 500])
def test_records_are_the_same_whatever_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, size: int
) -> None:
    def seen(result: Result) -> tuple[object, ...]:
        return result.rows, result.good, result.hits, result.cells, result.raw

    fields = text_fields("id", "text")
    expected = read_bytes(tmp_path, data, name, fields, schema(), cast=True)
    monkeypatch.setattr(module, "CHUNK_BYTES", size)
    assert seen(read_bytes(tmp_path, data, name, fields, schema(), cast=True)) == seen(expected)
    assert len(expected.rows) == 40 + (data != JSONL)
