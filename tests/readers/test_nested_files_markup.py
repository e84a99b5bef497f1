"""XML and HTML as nested objects; what is cut off or unbalanced is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.readers.nested_files import MOST_DEPTH, MarkupError, parse_markup


def test_elements_with_attributes_and_text() -> None:
    root = parse_markup(
        '<?xml version="1.0"?><A X="1" text="t"><b>two <i>words</i></b><br/><C Y="&amp;&#65;"/></A>'
    )
    (a,) = root["children"]
    assert (a["tag"], a["x"], a["text_"]) == ("a", "1", "t")
    b, br, c = a["children"]
    assert (b["tag"], b["text"], br["tag"], c["y"]) == ("b", "two words", "br", "&A")


def test_text_of_large_elements_is_their_own() -> None:
    root = parse_markup("<p>" + "<w>x</w>" * 50 + "</p>")
    assert root["text"] == ""
    assert root["children"][0]["children"][7]["text"] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "<a>",
        "<a><b></a></b>",
        "</a>",
        '<a x="1',
        "<a></a><b",
        "<a>" * (MOST_DEPTH + 1) + "</a>" * (MOST_DEPTH + 1),
    ],
)
def test_what_is_no_whole_document(text: str) -> None:
    with pytest.raises(MarkupError):
        parse_markup(text)


def test_entities_do_not_grow() -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
    try:
        root = parse_markup(bomb)
    except MarkupError:
        return
    assert "haha" not in str(root)


@given(st.lists(st.sampled_from(["<a>", "</a>", "<b x='1'>", "</b>", "<br>", "t", "&lt;"]), max_size=12))
def test_balance_as_a_stack_sees_it(parts: list[str]) -> None:
    open_: list[str] = []
    sound = True
    for part in parts:
        if part in ("<a>", "<b x='1'>"):
            open_.append(part[1])
        elif part.startswith("</"):
            sound &= bool(open_) and open_.pop() == part[2]
            if not sound:
                break
    sound &= not open_
    if sound:
        parse_markup("".join(parts))
    else:
        with pytest.raises(MarkupError):
            parse_markup("".join(parts))
