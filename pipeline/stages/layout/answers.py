"""The answer to a question on the page: a span of words, and its first and last token in each window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.batch import Batch, Findings, Int64s
from pipeline.reasons import Policy, Reason
from pipeline.stages.layout.ragged import INDEX, Ragged
from pipeline.stages.layout.windows import FlatPages, Prefix, Windows

START, END = "@answer_start", "@answer_end"


@dataclass(slots=True)
class AnswerStage:
    """Judge the answer: both ends or neither, in order, on words that are there. ``@answer_start`` and
    ``@answer_end`` become places among the kept words."""

    name: str = "answer"

    def __call__(self, batch: Batch) -> tuple[Batch, Findings]:
        findings = Findings()
        index = Ragged.of(batch.frame[INDEX])
        ends = [batch.frame[name] for name in (START, END)]
        given = [column.is_not_null().to_numpy() for column in ends]
        kept = [_kept(index, column.fill_null(-1).to_numpy()) for column in ends]
        both = given[0] & given[1]
        wrong = (given[0] != given[1]) | (both & ((kept[0] < 0) | (kept[1] < kept[0])))
        wrong &= index.present
        hits = np.flatnonzero(wrong)
        shown = [
            f"{a} to {b}"
            for a, b in zip(*(column[pl.Series(hits)].to_list() for column in ends), strict=True)
        ]
        findings.add(
            Reason.ANSWER_INVALID,
            Policy.QUARANTINE,
            START,
            batch.ids[hits],
            found=shown,
            expected="two places of the page's words, the first no later than the last",
        )
        columns = [
            pl.Series(name, np.where(both & ~wrong, places, -1))
            for name, places in zip((START, END), kept, strict=True)
        ]
        return batch.with_frame(batch.frame.with_columns(columns)), findings


def _kept(index: Ragged, places: Int64s) -> Int64s:
    """Place among the kept words of each record's word at this place as read; -1 for one that is not there."""
    hit = index.values.to_numpy() == places[index.owner]
    out = np.full(len(places), -1, np.int64)
    out[index.owner[hit]] = index.place[hit]
    return out


def answer_columns(
    batch: Batch,
    page: FlatPages,
    counts: Int64s,
    cut: Windows,
    prefix: Prefix,
    findings: Findings,
    policy: Policy,
) -> dict[str, pa.Array]:
    """``start_positions`` and ``end_positions`` of each window; both 0, the start token, where the answer is not whole
    in it. A record whose answer is in no window is found."""
    first, last = (batch.frame[name].to_numpy() for name in (START, END))
    answered = first >= 0
    ends = np.cumsum(counts)
    word = page.starts + np.where(answered, first, 0)
    begin = np.append(ends - counts, 0)[np.minimum(word, len(counts))]
    word = page.starts + np.where(answered, last, 0)
    stop = np.append(ends, 0)[np.minimum(word, len(counts))]
    begin, stop, asked = begin[cut.record], stop[cut.record], answered[cut.record]
    inside = asked & (begin >= cut.start) & (stop <= cut.end) & (stop > begin)
    found = np.zeros(len(batch), bool)
    found[cut.record[inside]] = True
    lost = np.flatnonzero(answered & ~found)
    shown = [f"{a} to {b}" for a, b in zip(first[lost].tolist(), last[lost].tolist(), strict=True)]
    findings.add(Reason.ANSWER_OUTSIDE_WINDOW, policy, START, batch.ids[lost], found=shown)
    ahead = prefix.lengths[cut.record]
    start = np.where(inside, ahead + begin - cut.start, 0)
    end = np.where(inside, ahead + stop - cut.start - 1, 0)
    return {"start_positions": pa.array(start, pa.int32()), "end_positions": pa.array(end, pa.int32())}
