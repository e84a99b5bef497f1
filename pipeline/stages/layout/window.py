"""Long pages become windows of tokens; neighbours share ``stride`` tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.arrays import within
from pipeline.batch import Int64s, Mask


@dataclass(frozen=True, slots=True)
class Windows:
    """int64 [windows] each, in the order of the records.

    Attributes:
        record: position of the record.
        start, end: tokens [start, end) of all tokens end to end.
        fresh: first token that no window before holds.
        number, count: which window of its record, and of how many.
    """

    record: Int64s
    start: Int64s
    end: Int64s
    fresh: Int64s
    number: Int64s
    count: Int64s


def windows(tokens: Int64s, room: int | Int64s, stride: int) -> Windows:
    """Cut records of ``tokens`` tokens (int64 [records]) into windows of at most ``room`` (one for all, or each).

    Window k starts at k · (room − stride), as ``return_overflowing_tokens`` of the tokenizers library has it; the
    last one ends with the record and holds at least one fresh token. A record without tokens has no window.
    """
    room = np.broadcast_to(room, tokens.shape)
    if stride < 0 or (room <= stride).any():
        raise ValueError(f"a stride of {stride} in windows of {room.min()} tokens")
    step = room - stride
    count = np.where(tokens > 0, 1 + np.maximum(0, -(-(tokens - room) // step)), 0)
    record = np.repeat(np.arange(len(tokens)), count)
    number = within(count)
    begin = (np.cumsum(tokens) - tokens)[record]
    start = begin + number * step[record]
    end = np.minimum(start + room[record], begin + tokens[record])
    fresh = np.where(number > 0, start + stride, start)
    return Windows(record, start, end, fresh, number, count[record])


def worth_learning(cut: Windows, learnable: Mask) -> Windows:
    """Without the windows after a record's first whose fresh tokens hold nothing that could be learnt: the tail of
    one word longer than a window, of which only the first token has a label. No word and no label is lost."""
    running = np.zeros(len(learnable) + 1, np.int64)
    np.cumsum(learnable, out=running[1:])
    keep = (running[cut.end] > running[cut.fresh]) | (cut.number == 0)
    if keep.all():
        return cut
    record = cut.record[keep]
    count = np.bincount(record, minlength=int(cut.record.max()) + 1)
    return Windows(
        record, cut.start[keep], cut.end[keep], cut.fresh[keep],
        within(count), count[record],
    )  # fmt: skip
