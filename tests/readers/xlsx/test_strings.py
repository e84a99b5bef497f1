"""The table of shared texts, however it is written and however far it is read."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx.archive import WorkbookArchive
from pipeline.readers.xlsx.strings import SharedStrings, decode_escape
from pipeline.readers.xlsx.xml_tags import Unusual, resolve_references
from tests.readers.handmade import write

PART = "xl/sharedStrings.xml"


def texts(path: Path, part: str | bytes | None, upto: int = 10**6) -> list[str | None]:
    package = WorkbookArchive(write(path / "b.xlsx", parts={PART: part}))
    found: list[str | None] = SharedStrings(package, PART).up_to(upto).texts.to_pylist()
    return found


@pytest.mark.parametrize(
    "part",
    [
        "<sst><si><t>one</t></si><si><t xml:space='preserve'> two</t></si><si><t/></si></sst>",
        "<sst>\n <si>\n<t>one</t></si> <si><r><rPr><b/></rPr><t> t</t></r><r><t>wo</t></r></si><si/></sst>",
        "<x:sst xmlns:x='x'><x:si><x:t>one</x:t></x:si><x:si><x:t> two</x:t></x:si><x:si><x:t/></x:si></x:sst>",
        "<sst><si><t>one</t><rPh><t>ruby</t></rPh></si><si><t><![CDATA[ two]]></t></si><si><t/></si></sst>",
        "<sst><!-- </si> --><si><t>o&#110;e</t></si><si><t>&#x20;two</t></si><si><t></t></si></sst>",
        "<?xml version='1.0' encoding='UTF-16'?><sst><si><t>one</t></si><si><t> two</t></si><si/></sst>".encode(
            "utf-16"
        ),
    ],
)
def test_texts_are_the_same_however_they_are_written(tmp_path: Path, part: str | bytes) -> None:
    assert texts(tmp_path, part) == ["one", " two", ""]


@given(st.lists(st.text(st.sampled_from("ab&;#<lt\0é"), max_size=9), min_size=1, max_size=4), st.booleans())
def test_references_are_resolved_as_html_escapes_them(values: list[str], numbered: bool) -> None:
    written = [escape(value) for value in values]
    if numbered:
        written = [text.replace("&lt;", "&#x3c;") for text in written]
    assert resolve_references(written) == values


@pytest.mark.parametrize("text", ["&", "&nbsp;", "&#0;", "&#xD800;", "a &amp; b & c", "&amp;&#;"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(Unusual):
        resolve_references(["&lt;", text])


def test_texts_are_read_as_far_as_they_are_asked_for(tmp_path: Path) -> None:
    part = "<sst>" + "".join(f"<si><t>text number {i}</t></si>" for i in range(200_000)) + "</sst>"
    package = WorkbookArchive(write(tmp_path / "b.xlsx", parts={PART: part}))
    shared = SharedStrings(package, PART)
    assert len(shared.up_to(3)) < 20_000
    whole = shared.up_to(199_999).texts
    assert whole.to_pylist() == [f"text number {i}" for i in range(200_000)]


def test_texts_are_the_same_where_the_exact_parser_takes_over_late(tmp_path: Path) -> None:
    items = [f"<si><t>text number {i}</t></si>" for i in range(60_000)]
    items[50_000] = "<si><!-- late --><t>text number 50000</t></si>"
    assert texts(tmp_path, "<sst>" + "".join(items) + "</sst>") == [f"text number {i}" for i in range(60_000)]


@pytest.mark.parametrize(
    "part",
    [
        "",
        "<!DOCTYPE x><sst/>",
        "<?xml version='1.0' encoding='UTF-18'?><sst/>",
        "<?xml version='1.0' encoding='Shift_JIS'?><sst/>",
        "<sst><si><t>one</t></si>",
        "<sst><si><t>&nbsp;</t></si></sst>",
        b"<sst><si><t>\xff</t></si></sst>",
    ],
)
def test_what_is_no_xml_is_a_fault(tmp_path: Path, part: str | bytes) -> None:
    with pytest.raises(TaskFault):
        texts(tmp_path, part)


def test_a_workbook_without_shared_texts_has_none(tmp_path: Path) -> None:
    assert texts(tmp_path, None) == []
    assert texts(tmp_path, "<sst/>") == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_what_is_escaped_is_decoded_to_the_same(text: str) -> None:
    """A writer escapes what XML cannot hold, and the start of what looks like an escape."""
    units = text.replace("\r\n", "\n").replace("\r", "\n").replace("_x", "_x005F_x")
    escaped = "".join(f"_x{ord(c):04X}_" if c < " " and c not in "\t\n" else c for c in units)
    assert decode_escape(escaped) == text.replace("\r\n", "\n").replace("\r", "\n")
