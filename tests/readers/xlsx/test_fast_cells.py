"""The fast reader against the XML parser: the same cells, or a refusal, for any XML."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx import any_cells, fast_cells, sheet
from pipeline.readers.xlsx.archive import WorkbookArchive
from pipeline.readers.xlsx.rows import StoredCells
from pipeline.readers.xlsx.xml_tags import PADDING, Unusual
from tests.readers.handmade import Tab, letters, write

TEXTS = st.text(st.sampled_from("ab <>&\"'é\n\r_x0D;#10"), max_size=12)


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;" if len(text) % 2 else ">")


@st.composite
def cells(draw: st.DrawFn) -> str:
    """A cell with its place as ``{at}``, written as one or another program would."""
    style = draw(st.sampled_from(["", ' s="3"', ' s="12"']))
    text = escaped(draw(TEXTS))
    formula = draw(
        st.sampled_from(["", "<f>A1</f>", '<f t="shared" si="0"/>', '<f aca="false">A1&amp;"x"</f>'])
    )
    return draw(
        st.sampled_from(
            [
                f'<c r="{{at}}"{style}/>',
                f'<c r="{{at}}"{style} />',
                f'<c r="{{at}}"{style}></c>',
                f'<c r="{{at}}"{style} t="s"><v>{len(text)}</v></c>',
                f'<c r="{{at}}" t="n"{style}>{formula}<v>1.5</v></c>',
                f'<c r="{{at}}"{style}>{formula}<v>{len(text)}</v></c>',
                f'<c r="{{at}}"{style}>{formula}<v/></c>',
                f'<c r="{{at}}"{style}>{formula}<v></v></c>',
                f'<c r="{{at}}"{style}>{formula}</c>',
                f'<c r="{{at}}"{style} t="str">{formula}<v>{text}</v></c>',
                f'<c r="{{at}}"{style} t="str">{formula}<v/></c>',
                f'<c r="{{at}}"{style} t="b"><v>1</v></c>',
                f'<c r="{{at}}" t="e"{style}>{formula}<v>#REF!</v></c>',
                f'<c r="{{at}}"{style} t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>',
                f'<c r="{{at}}" t="inlineStr"><is><r><t>{text}</t></r></is></c>',
                f"<c r='{{at}}'><v>{len(text)}</v></c>",
                f'<c r="{{at}}" cm="1"><v>{len(text)}</v></c>',
            ]
        )
    )


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    number, out = draw(st.integers(0, 1_000_000)), []
    for _ in range(draw(st.integers(0, 6))):
        number += draw(st.integers(1, 40))
        column, inner = draw(st.integers(0, 800)) - 1, []
        for cell in draw(st.lists(cells(), max_size=5)):
            column += draw(st.integers(1, 3))
            inner.append(cell.replace("{at}", f"{letters(column)}{number}"))
        gap = draw(st.sampled_from(["", "\n", "  "]))
        out.append(f'<row r="{number}" spans="1:9">{gap.join(inner)}</row>{gap}')
    return "".join(out).encode()


def facts(made: StoredCells) -> list[object]:
    """All of some cells as plain lists."""
    return [
        made.rows.tolist(),
        made.row_of.tolist(),
        made.columns.tolist(),
        made.stored.tolist(),
        made.styles.tolist(),
        made.shared.tolist(),
        made.values.to_pylist(),
    ]


def both(chunk: bytes) -> tuple[list[object] | None, list[object] | None]:
    """What each reader says of a chunk; None where it refuses."""
    try:
        fast = facts(fast_cells.read_fast(chunk + PADDING))
    except Unusual:
        fast = None
    try:
        slow = facts(any_cells.read_any(chunk))
    except TaskFault:
        slow = None
    return fast, slow


@settings(max_examples=400, deadline=None)
@given(chunk=chunks())
@example(chunk=b'<row r="1"><c r="A1" t="str"><v>a > b</v></c></row>')
@example(chunk=b"")
def test_both_readers_give_the_same_cells(chunk: bytes) -> None:
    fast, slow = both(chunk)
    assert slow is not None
    assert fast is None or fast == slow


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="A1" s="3" t="s"><v>7</v></c>',
        '<c r="A1" t="s" s="3"><v>7</v></c>',
        '<c r="A1"><f>B1</f><v>7</v></c>',
        '<c r="A1" t="inlineStr"><is><t>x &amp; &#10; y</t></is></c>',
        '<c r="A1" s="1" />',
        '<c r="A1" s="1"/><c r="B1"></c><c r="Z1" s="12"><v>-1.5</v></c><c r="AA1"><v>2</v></c>',
        '<c r="ZZ1" t="b"><v>1</v></c><c r="AAA1" t="e"><v>#N/A</v></c><c r="XFD1" t="d"><v>2024-01-01</v></c>',
        '<c r="A1" t="inlineStr"><is><t xml:space="preserve"> x </t></is></c><c r="B1" t="str"><v>a > b</v></c>',
        '<c r="A1" t="str"><f>B1</f><v>x</v></c><c r="B1"><f t="shared" si="0"/><v>1</v></c><c r="C1"><f>1</f></c>',
        '<c r="A1"><v/></c><c r="B1"><v></v></c><c r="C1"><f>1</f><v /></c><c r="D1"><f>A1/</f><v></v></c>',
    ],
)
def test_what_programs_usually_write_is_read_the_fast_way(cell: str) -> None:
    fast, slow = both(f'<row r="1" spans="1:2" ht="15">{cell}</row><row r="2"/>'.encode())
    assert fast is not None
    assert fast == slow


@pytest.mark.parametrize(
    "chunk",
    [
        '<row r="1"><c r="A2"><v>1</v></c></row>',
        '<row r="2"><c r="A2"><v>1</v></c></row><row r="1"><c r="A1"><v>1</v></c></row>',
        '<row r="1"><c r="A1"><v>1</v></c><x/></row>',
        '<row r="1"><c r="A1"><v>1<b/></v></c></row>',
        '<row r="1"><v>1</v></row>',
        '<c r="A1"><v>1</v></c>',
        '<row r="1"><c r="A1" t="str"><v>&nbsp;</v></c></row>',
        '<row r="1"><c r="A1" t="str"><v>&#0;</v></c></row>',
        '<row r="1048577"><c r="A1048577"><v>1</v></c></row>',
        '<row r="1"><c r="XFE1"><v>1</v></c></row>',
        '<row r="1"><c r="A1" t="s"><v>-1</v></c></row>',
        '<row r="1"><c r="A1" t="zz"><v>1</v></c></row>',
    ],
)
def test_what_it_cannot_judge_the_fast_reader_refuses(chunk: str) -> None:
    with pytest.raises(Unusual):
        fast_cells.read_fast(chunk.encode() + PADDING)


def test_cells_of_very_many_kinds_are_read_too(tmp_path: Path) -> None:
    """By the XML parser: the fast reader knows each kind by its bytes."""
    cells = [f'<c r="{letters(i)}1" s="{i}" t="str"><v>x</v></c>' for i in range(1200)]
    rows_ = f'<row r="1">{"".join(cells)}</row>'
    fast, slow = both(rows_.encode())
    assert fast is None
    assert slow is not None
    package = WorkbookArchive(write(tmp_path / "b.xlsx", Tab("data", rows_)))
    (made,) = sheet._stored_cells(package, "xl/worksheets/sheet1.xml")
    assert made.styles.tolist() == list(range(1200))


VALID = (
    b'<row r="1" spans="1:3"><c r="A1" t="s"><v>0</v></c><c r="B1" s="2" t="str"><f>A1</f><v>b &lt; c</v></c></row>'
    b'<row r="2"><c r="A2"><v>12.5</v></c><c r="C2" t="inlineStr"><is><t>x</t></is></c><c r="D2" s="1"/></row>'
    b'<row r="30"><c r="A30" t="b"><v>1</v></c><c r="B30" t="e"><v>#N/A</v></c></row>'
)
LETTERS = b"<>/\"'=&; \n" + b"rcvfstnbeiABZ0129#!?[]-_\xc3\xff\x00"


@pytest.mark.parametrize("count", [2_000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_mutated_rows_are_never_read_in_two_ways(count: int) -> None:
    """Where both readers accept a mutant, they give the same; neither ever fails otherwise.

    What is accepted the fast way alone is not well formed in a way that it does not look at: then nothing may be lost.
    """
    chance = random.Random(count)
    agreed = 0
    for _ in range(count):
        data = bytearray(VALID)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[at] = chance.choice(LETTERS)
                case 1:
                    del data[at : at + chance.randint(1, 9)]
                case 2:
                    data.insert(at, chance.choice(LETTERS))
                case _:
                    data[at:at] = data[at : at + chance.randint(1, 40)]
        if b"<!" in data or b"<?" in data:
            continue  # such a chunk is not given to the fast reader's verdict alone
        fast, slow = both(bytes(data))
        if fast is not None and slow is not None:
            agreed += 1
            assert fast == slow, bytes(data)
    assert agreed > count // 100
