"""Workbooks written part by part, so that a test can put into the XML whatever a program once wrote there."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELS = "http://schemas.openxmlformats.org/package/2006/relationships"

FORMATS = {
    "general": 0,
    "percent": 1,
    "day": 2,
    "moment": 3,
    "clock": 4,
    "hours": 5,
    "scientific": 6,
    "postal": 7,
    "signed": 8,
}
"""Cell styles of a handmade workbook."""
_CODES = (
    "General",
    "0%",
    "yyyy\\-mm\\-dd",
    "yyyy-mm-dd hh:mm",
    "h:mm:ss",
    "[h]:mm:ss",
    "0.00E+00",
    "00000",
    "000;[Red]-000",
)


@dataclass(frozen=True)
class Tab:
    """A sheet: its rows as XML (``<row …>``), its state, and XML after the rows."""

    name: str
    rows: str
    state: str = ""
    after: str = ""
    kind: str = "worksheet"
    dimension: str = ""


def row(number: int, *cells: str) -> str:
    """A row of cells as XML, each with its place filled in: ``{at}`` in a cell becomes ``B4``."""
    filled = "".join(cell.replace("{at}", f"{letters(i)}{number}") for i, cell in enumerate(cells))
    return f'<row r="{number}">{filled}</row>'


def letters(column: int) -> str:
    """Letters of a column counted from 0."""
    name = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name


def text(value: str) -> str:
    """A cell with inline text (already escaped for XML)."""
    return f'<c r="{{at}}" t="inlineStr"><is><t xml:space="preserve">{value}</t></is></c>'


def shared(index: int) -> str:
    """A cell that refers to a shared text."""
    return f'<c r="{{at}}" t="s"><v>{index}</v></c>'


def number(value: str, style: str = "general") -> str:
    """A number as it is to stand in the file."""
    return f'<c r="{{at}}" s="{FORMATS[style]}"><v>{value}</v></c>'


def table(*rows: Sequence[str], first: int = 1) -> str:
    """Rows of inline texts; "" gives no cell."""
    return "".join(
        row(i, *(text(value) if value else "" for value in cells)) for i, cells in enumerate(rows, first)
    )


def write(
    path: Path,
    *tabs: Tab,
    shared_texts: Sequence[str] = (),
    date1904: bool = False,
    more: str = "",
    parts: Mapping[str, str | bytes | None] | None = None,
) -> Path:
    """Write a workbook; ``shared_texts`` are the contents of its ``<si>``; ``parts`` replace parts by name, or
    take them away (None)."""
    sheets = "".join(
        f'<sheet name="{tab.name}" sheetId="{i}" r:id="rId{i}"{f" state={tab.state!r}" if tab.state else ""}/>'
        for i, tab in enumerate(tabs, 1)
    )
    made: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
        "_rels/.rels": _relationships({"rId1": ("officeDocument", "xl/workbook.xml")}),
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
        f'<workbookPr date1904="{int(date1904)}"/><sheets>{sheets}</sheets>{more}</workbook>',
        "xl/_rels/workbook.xml.rels": _relationships(
            {f"rId{i}": (tab.kind, f"worksheets/sheet{i}.xml") for i, tab in enumerate(tabs, 1)}
            | {"rS": ("styles", "styles.xml"), "rT": ("sharedStrings", "sharedStrings.xml")}
        ),
        "xl/styles.xml": _styles(),
        "xl/sharedStrings.xml": f'<sst xmlns="{_MAIN}">{"".join(f"<si>{t}</si>" for t in shared_texts)}</sst>',
    }
    for i, tab in enumerate(tabs, 1):
        size = f'<dimension ref="{tab.dimension}"/>' if tab.dimension else ""
        made[f"xl/worksheets/sheet{i}.xml"] = (
            '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
            f'<worksheet xmlns="{_MAIN}">{size}<sheetData>{tab.rows}</sheetData>{tab.after}</worksheet>'
        )
    for name, content in (parts or {}).items():
        made.pop(name, None)
        if content is not None:
            made[name] = content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in made.items():
            archive.writestr(name, content)
    return path


WORKSHEET = "<worksheet><sheetData>{}</sheetData></worksheet>"


def _relationships(targets: Mapping[str, tuple[str, str]]) -> str:
    body = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{_RELS}">{body}</Relationships>'


def _styles() -> str:
    codes = "".join(f'<numFmt numFmtId="{200 + i}" formatCode="{code}"/>' for i, code in enumerate(_CODES))
    cells = "".join(f'<xf numFmtId="{200 + i}"/>' for i in range(len(_CODES)))
    base = '<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>'
    body = f"<numFmts>{codes}</numFmts>{base}<cellXfs>{cells}</cellXfs>"
    return f'<styleSheet xmlns="{_MAIN}">{body}</styleSheet>'
