"""What fastexcel does not tell of an .xlsb workbook: which sheets hold cells, and which areas are merged.

Parts are sequences of records (MS-XLSB 2.1.4): a type of one or two bytes, a length of one to four, seven bits in each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pipeline.sources.sandboxed import TaskFault
from pipeline.sources.workbook.block import Area
from pipeline.sources.workbook.package import Package, Sheet

_SHEET, _MERGED = 156, 176  # BrtBundleSh, BrtMergeCell
_STATES = ("visible", "hidden", "veryhidden")
_NULL = 0xFFFFFFFF


def sheets(package: Package) -> tuple[Sheet, ...]:
    """Sheets in the order of their tabs, with their kind and part."""
    relations = package.relationships(package.main)
    found = []
    for body in _records(package, package.main, _SHEET):
        if len(body) < 12:
            raise _short(package.main)
        (state,) = struct.unpack_from("<I", body)
        relation, at = _text(body, 8)
        name, _ = _text(body, at)
        kind, part = relations.get(relation, ("worksheet", ""))
        found.append(Sheet(name, _STATES[state] if state < len(_STATES) else "hidden", kind, part))
    return tuple(found)


def areas(package: Package, sheet: Sheet) -> list[Area]:
    """Merged areas of a sheet."""
    found = []
    for body in _records(package, sheet.part, _MERGED):
        if len(body) < 16:
            raise _short(sheet.part)
        top, bottom, left, right = struct.unpack_from("<IIII", body)
        found.append(Area(top + 1, left, bottom + 1, right))
    return found


def _text(body: bytes, at: int) -> tuple[str, int]:
    """A text with its length in front, and the place after it."""
    length = int.from_bytes(body[at : at + 4], "little")
    if length == _NULL:
        return "", at + 4
    end = at + 4 + 2 * length
    if end > len(body):
        raise _short("the list of sheets")
    return body[at + 4 : end].decode("utf-16-le", "replace"), end


def _short(part: str) -> TaskFault:
    return TaskFault("file_unreadable", f"a short record in {part}", "a sound workbook")


def _records(package: Package, part: str, wanted: int) -> Iterator[bytes]:
    """Bodies of the records of one type."""
    data, at, source = b"", 0, package.chunks(part)
    while True:
        if len(data) - at < 2**20 and (chunk := next(source, b"")):
            data, at = data[at:] + chunk, 0
            continue
        if at >= len(data):
            return
        kind, at = _number(data, at, 2)
        length, at = _number(data, at, 4)
        while len(data) - at < length:
            chunk = next(source, b"")
            if not chunk:
                raise TaskFault("file_unreadable", f"{part} ends early", "a sound workbook")
            data, at = data[at:] + chunk, 0
        if kind == wanted:
            yield data[at : at + length]
        at += length


def _number(data: bytes, at: int, most: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and the place after it."""
    number = 0
    for shift in range(most):
        byte = data[at + shift] if at + shift < len(data) else 0
        number |= (byte & 0x7F) << (7 * shift)
        if not byte & 0x80:
            break
    return number, at + shift + 1
