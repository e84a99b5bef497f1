"""Findings on turns: each is written with the column and the place in it where the turn was read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.arrays import Int64s
from pipeline.batch import Batch, Findings
from pipeline.reasons import Policy, Reason
from pipeline.stages.chat.turns import Turns

CLIP = 80
"""Most characters of a value that a finding repeats."""


def clip(text: str) -> str:
    """The text, shortened to what a finding may repeat."""
    return text if len(text) <= CLIP else text[: CLIP - 1] + "…"


def report_turns(
    findings: Findings,
    batch: Batch,
    turns: Turns,
    hits: Int64s,
    reason: Reason,
    policy: Policy,
    found: Sequence[str] | str = "",
    expected: Sequence[str] | str = "",
    member: str = "content",
) -> None:
    """A finding for each of the turns ``hits`` (int64, indices), grouped by the column they were read from."""
    if not len(hits):
        return
    ids = batch.ids[turns.records[turns.owner[hits]]]
    _, paths = turns.places_of(hits, member)
    origins = turns.origins[hits]
    for origin in np.unique(origins).tolist():
        here = np.flatnonzero(origins == origin)
        picked = [
            found if isinstance(found, str) else [found[i] for i in here.tolist()],
            expected if isinstance(expected, str) else [expected[i] for i in here.tolist()],
        ]
        findings.add(
            reason, policy, turns.columns[origin], ids[here], paths=[paths[i] for i in here.tolist()],
            found=picked[0], expected=picked[1],
        )  # fmt: skip


def report_conversations(
    findings: Findings,
    batch: Batch,
    turns: Turns,
    hits: Int64s,
    reason: Reason,
    policy: Policy,
    found: Sequence[str] | str = "",
    expected: Sequence[str] | str = "",
) -> None:
    """A finding for each of the conversations ``hits`` (int64, indices)."""
    ids = batch.ids[turns.records[hits]]
    column = turns.columns[-1] if len(turns.columns) == 1 else ""
    findings.add(reason, policy, column, ids, found=found, expected=expected)
