"""Grouped cells: what is wrong in one record leaves the lists of the others where they are."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from pipeline.batch import Findings
from pipeline.cells.groups import grouped
from pipeline.cells.reads import readings
from pipeline.cells.table import Report
from pipeline.fields import Field, FieldType, Kind
from pipeline.reasons import Policy, Reason
from pipeline.stages.layout.ragged import Ragged

LABELS = Field("@labels", "label", FieldType(Kind.LABELS), wrong=Reason.LABEL_UNKNOWN, grouped=True)


@given(
    st.lists(st.lists(st.sampled_from(["O", "B-KEY", None]), min_size=1, max_size=3), min_size=1, max_size=6)
)
def test_a_blank_label_costs_its_record_and_no_label_of_another(rows: list[list[str | None]]) -> None:
    ids = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    findings = Findings()
    report = Report(findings, lambda _: Policy.QUARANTINE, ids)
    column = grouped(pl.Series("label", rows, pl.List(pl.String)), readings((LABELS,))[0], ".", report)
    good = [row if None not in row else None for row in rows]
    assert column.to_list() == good
    assert {record for item in findings.items for record in item.ids.tolist()} == {
        i for i, row in enumerate(good) if row is None
    }
    laid = Ragged.of(column)
    assert laid.values.to_list() == [label for row in good if row for label in row]
    assert laid.lengths.tolist() == [len(row or ()) for row in good]
