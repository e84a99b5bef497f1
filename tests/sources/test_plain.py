"""The two parsers of delimited text read plain blocks alike, and straight into types what the cell grammar reads; what
they read differently never takes the fast way."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.cells import grammar
from pipeline.fields import Kind
from pipeline.sources import csv as module
from pipeline.sources.blocks import Block, blocks
from pipeline.sources.partition import Partition
from pipeline.sources.pieces import joined
from pipeline.sources.plain import TRIES, Plain
from pipeline.sources.quotes import scan
from tests.sources.tables import read_bytes, schema, text_fields

HEADER = ("a", "b", "c")
PARTITION = Partition("x.csv", 0, "csv", header=HEADER, delimiter=",", first_row=1)


def block_of(data: bytes) -> Block | None:
    found = blocks(
        joined([data]), lambda d, final: scan(d, ord(","), final=final, limit=2**20), line=1, limit=2**20
    )
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
    fast = Plain(PARTITION, {})(block)
    if fast is not None:
        batch, findings = module._carefully(block, PARTITION, schema(), 2**20, Counter())
        assert not findings.items
        assert fast.cells.rows() == batch.cells.rows()  # type: ignore[union-attr]


@settings(max_examples=400)
@given(st.text(st.sampled_from('ab,"\n\r'), max_size=30))
def test_it_agrees_on_any_text_that_it_takes(text: str) -> None:
    block = block_of(text.encode())
    fast = None if block is None else Plain(PARTITION, {})(block)
    if fast is not None and block is not None:
        batch, findings = module._carefully(block, PARTITION, schema(), 2**20, Counter())
        assert not findings.items
        assert fast.cells.rows() == batch.cells.rows()  # type: ignore[union-attr]


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
    assert Plain(PARTITION, {})(block) is not None


DIGITS = st.text(st.sampled_from("0123456789"), min_size=1, max_size=22)
SIGNS = [*"0123456789+-.eE_ \t\n\v\xa0", "inf", "nan", "0x", "１"]
ODD = st.lists(st.sampled_from(SIGNS), max_size=6).map("".join)
NUMBERS = st.one_of(
    DIGITS, ODD, st.integers(-(2**64), 2**64).map(str), st.floats().map(repr),
    st.tuples(DIGITS, DIGITS).map(".".join), st.tuples(DIGITS, st.integers(-330, 310)).map("{0[0]}e{0[1]}".format),
)  # fmt: skip
BOOLEANS = st.sampled_from(["true", "false", "True", "FALSE", "yes", "no", "1", "0", " true", "t", "true "])
TYPES = {Kind.INTEGER: pl.Int64, Kind.NUMBER: pl.Float64, Kind.BOOLEAN: pl.Boolean}


@settings(max_examples=600)
@given(st.sampled_from(list(TYPES)), st.data(), st.booleans())
def test_a_cell_read_straight_is_what_the_cell_grammar_says(
    kind: Kind, data: st.DataObject, quoted: bool
) -> None:
    cell = data.draw(BOOLEANS if kind is Kind.BOOLEAN else NUMBERS)
    line = f'"{cell}",x,z\n' if quoted or set(cell) & set("\n\r") else f"{cell},x,z\n"
    block = block_of(line.encode())
    assert block is not None
    typed = Plain(PARTITION, {"a": TYPES[kind]})(block)
    assert typed is not None
    if typed.typed is None:
        return
    value = typed.typed.values["a"][0]
    if isinstance(value, float) and not math.isfinite(value):
        return  # the cast stage asks for the text of such a column
    parsed = grammar.parse(typed.as_read().cells["a"], kind)  # type: ignore[index]
    assert not parsed.wrong[0]
    assert parsed.whole is None or not parsed.whole[0]
    assert repr(value) == repr(parsed.values[0])


def test_cells_read_straight_are_given_back_as_they_were_written() -> None:
    block = block_of(b'01,"x",1.50\n+2,y,2e0\n')
    assert block is not None
    batch = Plain(PARTITION, {"a": pl.Int64, "c": pl.Float64})(block)
    assert batch is not None
    assert batch.typed is not None
    assert batch.typed.values.rows() == [(1, "x", 1.5), (2, "y", 2.0)]
    assert batch.as_read().cells.rows() == [("01", "x", "1.50"), ("+2", "y", "2e0")]  # type: ignore[union-attr]
    second = batch.take(np.array([False, True]))
    assert second.typed is not None
    assert second.typed.values.rows() == [(2, "y", 2.0)]
    assert second.as_read().cells.rows() == [("+2", "y", "2e0")]  # type: ignore[union-attr]
    assert second.as_read().rows.tolist() == [2]


def test_a_cell_that_is_wrong_has_its_block_read_as_texts() -> None:
    plain = Plain(PARTITION, {"a": pl.Int64})
    for _ in range(TRIES):
        block = block_of(b"1,x,y\nfive,x,y\n")
        assert block is not None
        assert plain(block).cells is not None  # type: ignore[union-attr]
    good = block_of(b"1,x,y\n2,x,y\n")
    assert good is not None
    assert plain(good).typed is None, "a file of such cells is no longer tried"  # type: ignore[union-attr]
    assert Plain(PARTITION, {"a": pl.Int64})(good).typed is not None  # type: ignore[union-attr]
