"""What counts as blank: a text of which nothing can be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from pipeline.stages.chat.turns import Mask

BLANK = r"^[\s\p{Cc}\p{Cf}\u{115F}\u{1160}\u{2800}\u{3164}\u{FFA0}]*$"
"""White space, control and format characters (zero-width ones), and the blank letters of Hangul and Braille. A
template that trims would leave nothing of such a text."""


def blank(texts: pl.Series) -> Mask:
    """bool [n], true for texts that are there and blank."""
    found: Mask = texts.str.contains(BLANK).fill_null(False).to_numpy()
    return found


def visible(texts: pl.Series) -> Mask:
    """bool [n], true for texts that are there and not blank."""
    found: Mask = (~texts.str.contains(BLANK)).fill_null(False).to_numpy()
    return found
