"""Predictions on windows come together to one value a word."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.train.windows import page_of, stitch, stitch_tokens


def test_the_first_window_that_holds_a_word_decides() -> None:
    stitched = stitch(
        ["p", "p", "q"],
        [1, 0, 0],
        [[-1, 1, 2, 2, -1], [-1, 0, 0, 1, -1], [-1, 5, -1]],
        [[9, 8, 7, 6, 9], [9, 1, 2, 3, 9], [0, 4, 0]],
    )
    assert list(stitched) == ["p", "q"]
    assert stitched["p"].words.tolist() == [0, 1, 2]
    assert stitched["p"].values.tolist() == [1, 3, 7]
    assert (stitched["q"].words.tolist(), stitched["q"].values.tolist()) == ([5], [4])


def test_scores_keep_their_shape_and_pads_are_ignored() -> None:
    scores = np.arange(24.0).reshape(6, 4)  # two pads at the end
    stitched = stitch(["p"], [0], [[-1, 0, 3, -1]], [scores])
    assert stitched["p"].values.tolist() == [scores[1].tolist(), scores[2].tolist()]


def test_fewer_predictions_than_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="3 predictions for 4 tokens"):
        stitch(["p"], [0], [[-1, 0, 3, -1]], [[1, 2, 3]])


def test_tokens_of_windows_without_what_they_share() -> None:
    windows = [np.array([-1, 0, 1, 2, -1]), np.array([-1, 1, 2, 3, -1]), np.array([-1, 2, 3, 4, -1])]
    assert stitch_tokens(windows, 2).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("sample", "page"),
    [("a.csv#3#w12", "a.csv#3"), ("a#w1.xlsx#S#4#w0", "a#w1.xlsx#S#4"), ("a.csv#3", "a.csv#3")],
)
def test_the_page_of_a_window(sample: str, page: str) -> None:
    assert page_of(sample) == page
