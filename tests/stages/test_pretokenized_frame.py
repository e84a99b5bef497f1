"""Start and end tokens of rows tokenized elsewhere, against a plain loop over each row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batch import Batch
from pipeline.models.families import limits_for
from pipeline.schema.model import Model, TokensSchema, schema_of
from pipeline.stages.context import Context
from pipeline.stages.pretokenized import Frame

BOS, END, IGNORE = 1, 9, -100
Row = tuple[list[int], list[int]]


def _context(**tokens: object) -> Context[TokensSchema]:
    schema = schema_of(
        {
            "version": 1,
            "name": "t",
            "kind": "tokens",
            "files": ("*",),
            "tokens": {"bos": BOS, "end_of_turn": END, **tokens},
        }
    )
    assert isinstance(schema, TokensSchema)
    limits = limits_for(Model(embedding_rows=10), Path(), None, None, None)
    return Context(schema, Path(), Path(), (), limits=limits)


def _batch(rows: list[Row]) -> Batch:
    numbers = np.arange(len(rows), dtype=np.int64)
    frame = pl.DataFrame(
        {"@input_ids": [ids for ids, _ in rows], "@labels": [labels for _, labels in rows]},
        schema={"@input_ids": pl.List(pl.Int64), "@labels": pl.List(pl.Int64)},
    )
    return Batch("t.jsonl", None, numbers, numbers + 1, frame)


def _wrong(row: Row) -> set[str]:
    """What is wrong with a row, told by a loop over its tokens."""
    ids, labels = row
    wrong = set()
    if ids.count(BOS) > 1:
        wrong.add("bos_doubled")
    if ids and BOS not in ids:
        wrong.add("bos_missing")
    for i in range(1, len(ids) if len(ids) == len(labels) else 0):
        if ids[i] == END and labels[i] == IGNORE and labels[i - 1] != IGNORE and ids[i - 1] != END:
            wrong.add("eos_not_supervised")
    return wrong


@st.composite
def rows(draw: st.DrawFn) -> Row:
    ids = draw(st.lists(st.sampled_from([BOS, 5, 6, END]), max_size=8))
    labels = [i if draw(st.booleans()) else IGNORE for i in ids]
    return ids, labels + draw(st.sampled_from([[], [], [5]]))


@given(st.lists(rows(), min_size=1, max_size=6))
def test_findings_are_those_of_a_loop_over_the_tokens(given_rows: list[Row]) -> None:
    _, findings = Frame(_context())(_batch(given_rows))
    found: dict[int, set[str]] = {i: set() for i in range(len(given_rows))}
    for item in findings.items:
        for record in item.ids.tolist():
            found[record].add(item.reason.slug)
    assert found == {i: _wrong(row) for i, row in enumerate(given_rows)}


def test_an_end_masked_as_padding_is_found_with_its_place() -> None:
    masked: Row = ([BOS, 5, 6, END, END], [IGNORE, IGNORE, 6, IGNORE, IGNORE])
    whole: Row = ([BOS, 5, 6, END, END], [IGNORE, IGNORE, 6, END, IGNORE])
    _, findings = Frame(_context())(_batch([whole, masked]))
    (item,) = findings.items
    assert (item.reason.slug, item.ids.tolist(), list(item.paths)) == ("eos_not_supervised", [1], ["[3]"])


def test_nothing_is_judged_that_is_not_declared() -> None:
    _, findings = Frame(_context(bos=None, end_of_turn=None))(_batch([([5, END], [5, IGNORE])]))
    assert findings.items == []
