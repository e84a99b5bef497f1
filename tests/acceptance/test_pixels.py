"""The size of a stored image: of the page turned upright, and made from it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.acceptance.case import Case, Report
from tests.acceptance.execute import Run
from tests.acceptance.invented import turned
from tests.acceptance.matching import Context
from tests.acceptance.outcome import Outcome
from tests.acceptance.pixels import SIDE, check

UPRIGHT, LYING = (40, 60), (60, 40)


def _mistakes(folder: Path, wanted: Any, *, sideways: bool) -> list[str]:
    """What is said of a stored image made from the page upright, or as it lies in the file."""
    (folder / "a.jpg").write_bytes(turned())
    with Image.open(io.BytesIO(turned())) as image:
        shown = image if sideways else image.transpose(Image.Transpose.ROTATE_270)
        pixels = np.asarray(shown.resize((SIDE, SIDE))).transpose(2, 0, 1).ravel().tolist()
    sample = {"source": "input.jsonl", "sheet": None, "row": 1, "id": "i", "notes": [], "page_id": "p"}
    outcome = Outcome(folder, samples=[sample], pages={"p": {"image": "a.jpg", "pixels": pixels}})
    case = Case(folder, "t-1", "accept", {"size": wanted}, {"modality": "layout"}, ("input.jsonl",))
    report = Report()
    check(Context(case, {}, Run(0, "", "", folder), outcome, "id", None), "size", wanted, report, 0)
    return report.mistakes


@pytest.mark.parametrize(
    "wanted", [list(UPRIGHT), {"i": list(UPRIGHT)}, {"a.jpg": list(UPRIGHT)}, [SIDE, SIDE]]
)
def test_the_upright_size_is_right(tmp_path: Path, wanted: Any) -> None:
    assert _mistakes(tmp_path, wanted, sideways=False) == []


@pytest.mark.parametrize(
    ("wanted", "sideways"), [(LYING, False), (UPRIGHT, True), (LYING, True), ((40, 61), False)]
)
def test_another_size_or_an_image_notturned_is_a_mistake(
    tmp_path: Path, wanted: tuple[int, int], sideways: bool
) -> None:
    assert _mistakes(tmp_path, list(wanted), sideways=sideways)
