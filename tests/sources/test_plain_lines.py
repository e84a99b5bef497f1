"""What the quick parser of JSON Lines takes is what the decoder gives; all else it leaves to it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.batch import Batch
from pipeline.fields import Field, FieldType, Kind
from pipeline.sources.jsonl import lines_of
from pipeline.sources.plain_lines import PlainLines
from pipeline.stages.cast import Cast
from tests.sources.tables import schema

KINDS = {"a": Kind.TEXT, "b": Kind.INTEGER, "c": Kind.NUMBER, "d": Kind.BOOLEAN, "e": Kind.TEXT}
FIELDS = tuple(Field(name, name, FieldType(kind)) for name, kind in KINDS.items())
TYPES = {field.name: field.type.dtype() for field in FIELDS}
PLAIN = PlainLines(TYPES)

ODD = st.sampled_from(
    ["null", "true", "1", "1.0", "-0", "-0.0", "0", "1e2", "1E400", "1e-400", "01", "1.", "NaN", "Infinity", "-1",
     "9223372036854775807", "9223372036854775808", "-9223372036854775808", "123456789012345678901234567890",
     '"x"', '""', '"true"', "[]", "{}", '["x"]', '[["x"]]', '{"a": "x"}', '{"z": 1}', '"\\ud800"', '"\\ud83d\\ude00"',
     '"\\u0000"', '"\\u00e9"', '"\\ufffd"', '"\\n"', '"\\""', '"\\\\"', '"\\":"', '"\\": \\""', '"q :"', '"! :"',
     '"[x"', '"a\tb"', '"Ã©"', '"é"', '"\ufffd"', "'x'", "", '"x" "y"', '"x', "1 2"]
)  # fmt: skip
GOOD = {
    Kind.TEXT: st.text(st.characters(codec="utf-8"), max_size=6).map(
        lambda t: json.dumps(t, ensure_ascii=False)
    ),
    Kind.INTEGER: st.integers(-(2**63), 2**63 - 1).map(str),
    Kind.NUMBER: st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-9, 9).map(str)
    ),
    Kind.BOOLEAN: st.sampled_from(["true", "false"]),
}
GAPS = st.sampled_from(["", "", " ", "\t", "  "])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """A record that is right, as a rule, or has one thing wrong."""
    values = {name: draw(GOOD[kind]) for name, kind in KINDS.items()}
    pairs = list(draw(st.permutations(list(values.items()))))
    fault = draw(st.sampled_from(["", "", "", "odd", "odd", "again", "more", "less", "cut"]))
    at = draw(st.integers(0, len(pairs) - 1))
    if fault == "odd":
        pairs[at] = (pairs[at][0], draw(ODD))
    elif fault == "again":
        pairs.insert(at, (draw(st.sampled_from("ab")), draw(ODD)))
    elif fault == "more":
        pairs.insert(at, ("z", draw(ODD)))
    elif fault == "less":
        del pairs[at]
    written = ",".join(f'{draw(GAPS)}"{key}"{draw(GAPS)}:{draw(GAPS)}{value}' for key, value in pairs)
    line = f"{{{written}{draw(GAPS)}}}{draw(GAPS)}"
    return line[: len(line) - 3] if fault == "cut" else line


def decoded(data: bytes) -> tuple[pl.DataFrame, list[Any]]:
    """The columns by the decoder, and what it finds."""
    ends = np.concatenate([[0], lines_of(data, True).ends]).tolist()
    raw = [data[start:end] for start, end in pairwise(ends)]
    ids = np.arange(len(raw), dtype=np.int64)
    batch = Batch("x.jsonl", None, ids, ids, pl.DataFrame(), raw=pa.array(raw, pa.binary()))
    batch, findings = Cast(schema(), FIELDS)(batch)
    return batch.frame, findings.items


@settings(max_examples=1500)
@given(st.lists(lines(), min_size=1, max_size=3), st.sampled_from(["", "", "\n", " \n"]))
def test_what_it_takes_is_what_the_decoder_gives(records: list[str], blank: str) -> None:
    data = ("\n".join(records) + "\n" + blank).encode()
    taken = PLAIN(data)
    if taken is not None:
        frame, found = decoded(data)
        assert found == []
        assert [list(map(repr, row)) for row in taken.rows()] == [
            list(map(repr, row)) for row in frame.rows()
        ]


RECORD = '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": "y"}'


def test_records_with_each_key_once_are_taken() -> None:
    other = '{"d":false,"e":"q: \\"r\\" [1]","a":"é\\n","c":-2e3,"b":-7}'
    spaced = '{ "a" : "so : it ! : is", "b" : 1, "c" :2, "d": true , "e" :"" }'
    taken = PLAIN(f"{RECORD}\n{other}\n{spaced}\n".encode())
    assert taken is not None
    assert taken.rows() == [
        ("x", 1, 0.5, True, "y"), ("é\n", -7, -2000.0, False, 'q: "r" [1]'), ("so : it ! : is", 1, 2.0, True, "")
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "",
        " ",
        '{"a": "x", "b": 1, "c": 0.5, "d": true}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": null}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": "y", "e": "y"}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": "y", "f": 1}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": 5}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": ["y"]}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": {}}',
        '{"a": "x", "b": 1, "c": 36893488147419103232, "d": true, "e": "y"}',
        '{"a": "x", "b": 1, "c": -0, "d": true, "e": "y"}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": "\\ud800"}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": "\\u0000"}',
        '{"a": "x", "b": 1, "c": 0.5, "d": true, "e": "cafÃ©"}',
        RECORD + "\r",
        RECORD + RECORD,
    ],
)
def test_anything_else_is_left_to_the_decoder(line: str) -> None:
    assert PLAIN(f"{RECORD}\n{line}\n{RECORD}\n".encode()) is None
