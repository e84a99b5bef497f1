"""One label a page, for sequence classification."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from pipeline.batch import Batch, Findings, Int64s, Mask
from pipeline.reasons import Policy, Reason
from pipeline.stages.context import Context
from pipeline.stages.layout.ragged import SHOWN_CHARACTERS

PAGE_LABEL = "@page_label"


@dataclass(slots=True)
class PageLabelStage:
    """Judge the label; ``@page_label`` becomes Int64."""

    context: Context
    name: str = "page label"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        layout = self.context.schema.layout
        assert layout is not None  # noqa: S101 - the model proves it
        assert layout.page_label is not None  # noqa: S101 - `record_stages` makes no such stage without it
        findings, names = Findings(), layout.page_label.names
        written = batch.frame[PAGE_LABEL]
        if layout.page_label.form == "names":
            ids = written.replace_strict(
                list(names), list(range(len(names))), default=None, return_dtype=pl.Int64
            )
            unknown = (ids.is_null() & written.is_not_null()).to_numpy()
            self._report(batch, Reason.LABEL_UNKNOWN, unknown, written, ", ".join(names[:20]), findings)
        else:
            ids = written
            outside = ((ids < 0) | (ids >= len(names))).fill_null(False).to_numpy()
            self._report(
                batch, Reason.LABEL_OUT_OF_RANGE, outside, written, f"0 to {len(names) - 1}", findings
            )
        return batch.with_frame(batch.frame.with_columns(ids.alias(PAGE_LABEL))), findings

    def _report(
        self, batch: Batch, reason: Reason, hit: Mask, written: pl.Series, expected: str, findings: Findings
    ) -> None:
        hits: Int64s = np.flatnonzero(hit)
        shown = written[pl.Series(hits)].cast(pl.String).str.slice(0, SHOWN_CHARACTERS).to_list()
        findings.add(reason, Policy.QUARANTINE, PAGE_LABEL, batch.ids[hits], found=shown, expected=expected)
