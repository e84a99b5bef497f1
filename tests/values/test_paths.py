"""Paths into JSON values."""

from __future__ import annotations

import pytest

from pipeline.values.paths import Step, parse_path


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("text", (Step("text"),)),
        ("a.b [c]", (Step("a.b [c]"),)),
        ("$", ()),
        ("$.page.width", (Step("page"), Step("width"))),
        ("$.lines[].text", (Step("lines", 1), Step("text"))),
        ("$.a[][]", (Step("a", 2),)),
        ("$['a.b'].c d", (Step("a.b"), Step("c d"))),
    ],
)
def test_paths(path: str, found: tuple[Step, ...]) -> None:
    assert parse_path(path) == found


@pytest.mark.parametrize("path", ["$.", "$a", "$.a..b", "$.a[0]", "$.a[", "$[]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path"):
        parse_path(path)
