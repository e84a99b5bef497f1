"""Grouped cells: a wrong entry in one record does not change the lists of the others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batch import Findings
from pipeline.fields import Field, FieldType, Kind
from pipeline.reasons import Policy, Reason
from pipeline.stages.layout.ragged import Ragged
from pipeline.values.grouped import list_of_rows
from pipeline.values.parse_text import Report
from pipeline.values.paths import field_paths

LABELS = Field("@labels", "label", FieldType(Kind.LABELS), wrong=Reason.LABEL_UNKNOWN, grouped=True)


@given(
    st.lists(st.lists(st.sampled_from(["O", "B-KEY", None]), min_size=1, max_size=3), min_size=1, max_size=6)
)
def test_a_blank_label_costs_its_record_and_no_label_of_another(rows: list[list[str | None]]) -> None:
    ids = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    findings = Findings()
    report = Report(findings, lambda _: Policy.QUARANTINE, ids)
    column = list_of_rows(
        pl.Series("label", rows, pl.List(pl.String)), field_paths((LABELS,))[0], ".", report
    )
    good = [row if None not in row else None for row in rows]
    assert column.to_list() == good
    assert {record for item in findings.items for record in item.ids.tolist()} == {
        i for i, row in enumerate(good) if row is None
    }
    laid = Ragged.of(column)
    assert laid.values.to_list() == [label for row in good if row for label in row]
    assert laid.lengths.tolist() == [len(row or ()) for row in good]


@pytest.mark.parametrize(
    ("field", "good"),
    [
        (Field("@labels", "label", FieldType(Kind.LABELS, ids=True), grouped=True), [1]),
        (Field("@boxes", ("x", "y"), FieldType(Kind.BOXES), grouped=True), [1.0]),
        (Field("n", "n", FieldType(Kind.LIST, item=FieldType(Kind.INTEGER)), grouped=True), [1]),
    ],
)
@pytest.mark.parametrize("blank", [None, "", "  ", "\xa0", "\t\r\n"])
def test_white_space_alone_is_a_blank_entry_and_a_finding(
    field: Field, good: list[float], blank: str | None
) -> None:
    rows = pl.Series("c", [["1"], ["1", blank], ["1"]], pl.List(pl.String))
    findings = Findings()
    report = Report(findings, lambda _: Policy.QUARANTINE, np.array([0, 1, 1, 2]))
    assert list_of_rows(rows, field_paths((field,))[0], ".", report).to_list() == [good, None, good]
    assert [(item.ids.tolist(), item.found) for item in findings.items] == [([1], "blank")]
