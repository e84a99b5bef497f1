"""Windows cover every token once as fresh, and no label is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stages.layout.windows import windows, worth_learning


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(1, 20), st.data())
def test_fresh_tokens_are_the_page(tokens: list[int], room: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(0, room - 1))
    cut = windows(np.array(tokens), room, stride)
    begin = 0
    for record, count in enumerate(tokens):
        own = np.flatnonzero(cut.record == record)
        assert cut.number[own].tolist() == list(range(len(own)))
        assert (cut.count[own] == len(own)).all()
        fresh = [range(cut.fresh[i], cut.end[i]) for i in own]
        assert [token for part in fresh for token in part] == list(range(begin, begin + count))
        assert all(len(part) for part in fresh)
        assert all(0 < cut.end[i] - cut.start[i] <= room for i in own)
        assert all(cut.fresh[i] - cut.start[i] == (stride if i != own[0] else 0) for i in own)
        begin += count


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(2, 8), st.data())
def test_no_first_token_is_lost_where_tails_are_left_out(
    words: list[int], room: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(0, room - 1))
    firsts = np.concatenate([[True] + [False] * (n - 1) for n in words])
    cut = worth_learning(windows(np.array([sum(words)]), room, stride), firsts)
    covered = np.zeros(len(firsts), bool)
    for start, end, fresh in zip(cut.start, cut.end, cut.fresh, strict=True):
        covered[start:end] = True
        assert fresh == 0 or firsts[fresh:end].any()
    assert covered[firsts].all()
    assert cut.number.tolist() == list(range(len(cut.number)))
    assert (cut.count == len(cut.number)).all()


@pytest.mark.parametrize("stride", [-1, 5, 6])
def test_windows_that_would_not_move_are_refused(stride: int) -> None:
    with pytest.raises(ValueError, match="stride"):
        windows(np.array([10]), 5, stride)
