"""Statistics against plain Python over the same rows."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.shards.statistics import ColumnStatistics, from_json, measure, merge

SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("share", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("ids", pa.list_(pa.int32())),
        pa.field("boxes", pa.list_(pa.list_(pa.int16(), 2))),
        pa.field(
            "turns", pa.list_(pa.struct([pa.field("role", pa.string()), pa.field("start", pa.int32())]))
        ),
    ]
)
NUMBER = st.none() | st.integers(-(2**31), 2**31 - 1)
TURN = st.fixed_dictionaries({"role": st.text(max_size=3), "start": st.integers(0, 99)})
ROW = st.fixed_dictionaries(
    {
        "number": NUMBER,
        "share": st.none() | st.floats(),
        "text": st.none() | st.text(max_size=5),
        "ids": st.none() | st.lists(NUMBER, max_size=4),
        "boxes": st.none() | st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=2), max_size=3),
        "turns": st.lists(
            st.fixed_dictionaries({"role": st.text(max_size=3), "start": st.integers(0, 99)}), max_size=3
        ),
    }
)


def lengths(values: list[Any]) -> ColumnStatistics:
    known = [len(v) for v in values if v is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    return ColumnStatistics(
        len(values) - len(known), len(known), shortest=low, longest=high, total=sum(known)
    )


def numbers(values: list[Any]) -> ColumnStatistics:
    known = [v for v in values if v is not None]
    return ColumnStatistics(
        len(values) - len(known), len(known), min(known, default=None), max(known, default=None)
    )


def flat(values: list[Any]) -> list[Any]:
    return [item for value in values if value is not None for item in value]


def oracle(rows: list[dict[str, Any]]) -> dict[str, ColumnStatistics]:
    column = {name: [row[name] for row in rows] for name in SCHEMA.names}
    shares = [v for v in column["share"] if v is not None]
    finite = [v + 0.0 for v in shares if math.isfinite(v)]
    turns = flat(column["turns"])
    encoded = [None if v is None else v.encode() for v in column["text"]]
    return {
        "number": numbers(column["number"]),
        "share": ColumnStatistics(
            len(rows) - len(shares),
            len(shares),
            repr(min(finite)) if finite else None,
            repr(max(finite)) if finite else None,
            len(shares) - len(finite),
        ),
        "text": lengths(encoded),
        "ids": lengths(column["ids"]),
        "ids[]": numbers(flat(column["ids"])),
        "boxes": lengths(column["boxes"]),
        "boxes[]": lengths(flat(column["boxes"])),
        "boxes[][]": numbers(flat(flat(column["boxes"]))),
        "turns": lengths(column["turns"]),
        "turns[]": ColumnStatistics(0, len(turns)),
        "turns[].role": lengths([turn["role"].encode() for turn in turns]),
        "turns[].start": numbers([turn["start"] for turn in turns]),
    }


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@given(st.lists(ROW, max_size=12))
def test_every_fact_is_what_plain_python_finds(rows: list[dict[str, Any]]) -> None:
    assert measure(batch_of(rows)) == oracle(rows)


@given(st.lists(ROW, max_size=12), st.integers(0, 12))
def test_merged_parts_are_the_whole(rows: list[dict[str, Any]], cut: int) -> None:
    parts = [measure(batch_of(rows[:cut])), measure(batch_of(rows[cut:]))]
    assert merge(parts) == measure(batch_of(rows))


@given(st.lists(ROW, max_size=12), st.integers(0, 12))
def test_a_slice_is_measured_as_its_own_rows(rows: list[dict[str, Any]], cut: int) -> None:
    assert measure(batch_of(rows).slice(cut)) == measure(batch_of(rows[cut:]))


@given(st.lists(ROW, max_size=6))
def test_json_gives_the_same_facts_again_without_floats(rows: list[dict[str, Any]]) -> None:
    for facts in measure(batch_of(rows)).values():
        assert from_json(facts.to_json()) == facts
        assert not any(isinstance(value, float) for value in facts.to_json().values())
