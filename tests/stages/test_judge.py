"""The contract's rules, each against an oracle in plain Python."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batch import Batch, split
from pipeline.reasons import Reason
from pipeline.schema.fields import fields_of
from pipeline.schema.model import schema_from_json
from pipeline.stages.judge import ContractBroken, Judge

SCHEMA = schema_from_json(
    json.dumps(
        {
            "version": 1,
            "name": "t",
            "kind": "table",
            "files": ["*.csv"],
            "table": {},
            "columns": {
                "text": {"min_characters": 2, "max_characters": 5},
                "code": {"pattern": "[a-c]+", "required": False},
                "label": {"allowed": ["pos", "neg"]},
                "age": {"type": "integer", "min": 0, "max": 120, "required": False},
                "score": {"type": "number", "min": 0.5},
            },
        }
    )
)
BLANK = re.compile(r"[\s\u200b-\u200d\u2060\ufeff]*")
TEXTS = st.text(alphabet="ab \t\u200b\u00a0éß😀c", max_size=7)
ROWS = st.lists(
    st.tuples(
        TEXTS,
        st.none() | TEXTS,
        st.sampled_from(["pos", "neg", "maybe", "POS"]),
        st.none() | st.integers(-200, 200),
        st.floats(-2, 2),
    ),
    max_size=12,
)


def batch_of(rows: list[tuple[object, ...]]) -> Batch:
    fields = fields_of(SCHEMA)
    frame = pl.DataFrame(rows, schema={f.name: f.type.dtype() for f in fields}, orient="row")
    ids = np.arange(len(rows), dtype=np.int64)
    return Batch("f.csv", None, ids, ids + 2, frame)


def oracle(row: tuple[object, ...]) -> set[tuple[str, Reason]]:
    text, code, label, age, score = row
    found: set[tuple[str, Reason]] = set()
    assert isinstance(text, str)
    assert isinstance(score, float)
    if BLANK.fullmatch(text):
        found.add(("text", Reason.TEXT_BLANK))
    if len(text) < 2:
        found.add(("text", Reason.TEXT_TOO_SHORT))
    if len(text) > 5:
        found.add(("text", Reason.TEXT_TOO_LONG))
    if isinstance(code, str) and not re.fullmatch("[a-c]+", code):
        found.add(("code", Reason.TEXT_PATTERN))
    if label not in ("pos", "neg"):
        found.add(("label", Reason.VALUE_NOT_ALLOWED))
    if isinstance(age, int) and not 0 <= age <= 120:
        found.add(("age", Reason.VALUE_OUT_OF_RANGE))
    if score < 0.5 or math.isnan(score):
        found.add(("score", Reason.VALUE_OUT_OF_RANGE))
    return found


@given(ROWS)
def test_every_rule_finds_exactly_what_an_independent_oracle_finds(rows: list[tuple[object, ...]]) -> None:
    _, findings = Judge(SCHEMA)(batch_of(rows))
    found: dict[int, set[tuple[str, Reason]]] = {i: set() for i in range(len(rows))}
    for finding in findings.items:
        for record in finding.ids.tolist():
            found[record].add((finding.column, finding.reason))
    assert found == {i: oracle(row) for i, row in enumerate(rows)}


@given(ROWS)
def test_judging_the_good_half_again_finds_nothing(rows: list[tuple[object, ...]]) -> None:
    judge = Judge(SCHEMA)
    batch, findings = judge(batch_of(rows))
    good, bad = split(batch, findings)
    assert len(good) + len(bad) == len(batch)
    judge.assert_clean(good.frame)
    assert not judge(good)[1].items


def test_what_was_found_and_expected_is_said_one_a_hit() -> None:
    rows = [("good", None, "pos", 130, 1.0), ("long text", None, "other", -1, 1.0)]
    _, findings = Judge(SCHEMA)(batch_of(rows))
    said = {(f.column, f.reason): (list(f.found), f.expected) for f in findings.items}
    assert said[("age", Reason.VALUE_OUT_OF_RANGE)] == (["130", "-1"], "0 to 120")
    assert said[("text", Reason.TEXT_TOO_LONG)] == (["9"], "5")
    assert said[("label", Reason.VALUE_NOT_ALLOWED)] == (["other"], "pos, neg")


def test_the_strict_contract_refuses_a_null_that_slipped_through() -> None:
    batch = batch_of([("good", None, None, 1, 1.0)])
    assert not Judge(SCHEMA)(batch)[1].items
    with pytest.raises(ContractBroken, match="label"):
        Judge(SCHEMA).assert_clean(batch.frame)


def test_a_missing_column_is_an_error_of_the_program_not_a_pass() -> None:
    batch = batch_of([("good", None, "pos", 1, 1.0)])
    with pytest.raises(ContractBroken):
        Judge(SCHEMA)(batch.with_frame(batch.frame.drop("label")))


def test_a_column_of_another_type_is_an_error_of_the_program_not_a_pass() -> None:
    batch = batch_of([("good", None, "pos", 1, 1.0)])
    with pytest.raises(ContractBroken):
        Judge(SCHEMA)(batch.with_frame(batch.frame.with_columns(pl.col("age").cast(pl.String))))


def test_switching_pandera_off_in_the_environment_does_not_switch_the_judge_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", "False")
    _, findings = Judge(SCHEMA)(batch_of([("", None, "pos", 1, 1.0)]))
    assert {f.reason for f in findings.items} == {Reason.TEXT_BLANK, Reason.TEXT_TOO_SHORT}


def test_a_reason_that_the_schema_only_flags_does_not_reject() -> None:
    schema = SCHEMA.model_copy(update={"policies": {"text_too_long": "flag"}})
    batch, findings = Judge(schema)(batch_of([("long text", None, "pos", 1, 1.0)]))
    good, bad = split(batch, findings)
    assert (len(good), len(bad)) == (1, 0)
    Judge(schema).assert_clean(good.frame)
    assert findings.noted() == {0: ["text_too_long"]}
