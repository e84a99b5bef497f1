"""The two parsers of delimited text read plain blocks alike; what they read differently never takes the fast way."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.sources import csv as module
from pipeline.sources.blocks import Block, blocks
from pipeline.sources.partition import Partition
from pipeline.sources.quotes import scan
from tests.sources.tables import read_bytes, schema, text_fields

HEADER = ("a", "b", "c")
PARTITION = Partition("x.csv", 0, "csv", header=HEADER, delimiter=",", first_row=1)


def block_of(data: bytes) -> Block | None:
    found = blocks([data], lambda d, final: scan(d, ord(","), final=final, limit=2**20), line=1, limit=2**20)
    return next(found, None)


@settings(max_examples=400)
@given(
    st.lists(
        st.lists(st.text(st.sampled_from('ab ,"\n\r;é'), max_size=4), min_size=3, max_size=3),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.booleans(),
)
def test_the_fast_parser_reads_what_the_careful_one_reads(
    rows: list[list[str]], end: str, quoting: int, closed: bool
) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator=end, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    data = file.getvalue().removesuffix("" if closed else end).encode()
    block = block_of(data)
    if block is None:
        return
    fast = module._parse_plain(block, PARTITION)
    if fast is not None:
        batch, findings = module._carefully(block, PARTITION, schema(), 2**20, Counter())
        assert not findings.items
        assert fast.rows() == batch.cells.rows()  # type: ignore[union-attr]


@settings(max_examples=400)
@given(st.text(st.sampled_from('ab,"\n\r'), max_size=30))
def test_it_agrees_on_any_text_that_it_takes(text: str) -> None:
    block = block_of(text.encode())
    fast = None if block is None else module._parse_plain(block, PARTITION)
    if fast is not None and block is not None:
        batch, findings = module._carefully(block, PARTITION, schema(), 2**20, Counter())
        assert not findings.items
        assert fast.rows() == batch.cells.rows()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "body", ["1,2,3\n4,5,", "1,2,3\n4,5,6,", '1,2,3\n4,5,"6",', "1,2,3\n4,5\n", "1,2,3\n4,5,6,7\n"]
)
def test_a_row_of_another_length_at_the_end_is_found(tmp_path: Path, body: str) -> None:
    result = read_bytes(tmp_path, ("a,b,c\n" + body).encode(), "x.csv", text_fields(*HEADER), schema())
    ragged = body != "1,2,3\n4,5,"
    assert result.reasons == ([(3, "row_ragged")] if ragged else [])


def test_plain_blocks_take_the_fast_way() -> None:
    block = block_of(b'1,"x, y",3\r\n4,"a\nb",6\r\n')
    assert block is not None
    assert module._parse_plain(block, PARTITION) is not None
