"""Sheets of .xls, .xlsb and .ods through fastexcel.

As text, fastexcel rounds fractions to nine decimals, shows times of day as days of 1899, and drops those of
OpenDocument. Each sheet is therefore also loaded as numbers, durations and moments, which correct the texts: only dates
and times have a duration, and a boolean is the text ``true`` with the number 1.

Parts of .xlsb are sequences of records (MS-XLSB 2.1.4): a type of one or two bytes and a length of one to four, with
seven bits in each byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import fastexcel
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx.archive import Sheet, WorkbookArchive
from pipeline.readers.xlsx.number_format import DAY_MS, shortest_text
from pipeline.readers.xlsx.rows import Area, CellTexts, CellTextsBuilder
from pipeline.readers.xlsx.strings import string_table
from pipeline.readers.xlsx.xml_tags import replace_texts

# Parts of .xlsb that fastexcel does not report: which sheets hold cells, and merged areas

_SHEET, _MERGED = 156, 176  # BrtBundleSh, BrtMergeCell
_STATES = ("visible", "hidden", "veryhidden")
_NULL = 0xFFFFFFFF


def xlsb_sheets(archive: WorkbookArchive) -> tuple[Sheet, ...]:
    """Sheets in the order of their tabs, with their kind and part."""
    relations = archive.relationships(archive.main)
    found = []
    for body in _records(archive, archive.main, _SHEET):
        if len(body) < 12:
            raise _short_record(archive.main)
        (state,) = struct.unpack_from("<I", body)
        relation, at = _string_at(body, 8)
        name, _ = _string_at(body, at)
        kind, part = relations.get(relation, ("worksheet", ""))
        found.append(Sheet(name, _STATES[state] if state < len(_STATES) else "hidden", kind, part))
    return tuple(found)


def xlsb_areas(archive: WorkbookArchive, sheet: Sheet) -> list[Area]:
    """Merged areas of a sheet."""
    found = []
    for body in _records(archive, sheet.part, _MERGED):
        if len(body) < 16:
            raise _short_record(sheet.part)
        top, bottom, left, right = struct.unpack_from("<IIII", body)
        found.append(Area(top + 1, left, bottom + 1, right))
    return found


def _string_at(body: bytes, at: int) -> tuple[str, int]:
    """The string with a length prefix at an offset, and the offset after it."""
    length = int.from_bytes(body[at : at + 4], "little")
    if length == _NULL:
        return "", at + 4
    end = at + 4 + 2 * length
    if end > len(body):
        raise _short_record("the list of sheets")
    return body[at + 4 : end].decode("utf-16-le", "replace"), end


def _short_record(part: str) -> TaskFault:
    return TaskFault("file_unreadable", f"a short record in {part}", "a sound workbook")


def _records(archive: WorkbookArchive, part: str, wanted: int) -> Iterator[bytes]:
    """Bodies of the records of one type."""
    data, at, source = b"", 0, archive.chunks(part)
    while True:
        if len(data) - at < 2**20 and (chunk := next(source, b"")):
            data, at = data[at:] + chunk, 0
            continue
        if at >= len(data):
            return
        kind, at = _number_at(data, at, 2)
        length, at = _number_at(data, at, 4)
        while len(data) - at < length:
            chunk = next(source, b"")
            if not chunk:
                raise TaskFault("file_unreadable", f"{part} ends early", "a sound workbook")
            data, at = data[at:] + chunk, 0
        if kind == wanted:
            yield data[at : at + length]
        at += length


def _number_at(data: bytes, at: int, most: int) -> tuple[int, int]:
    """The number at an offset, seven bits a byte and the lowest first, and the offset after it."""
    number = 0
    for shift in range(most):
        byte = data[at + shift] if at + shift < len(data) else 0
        number |= (byte & 0x7F) << (7 * shift)
        if not byte & 0x80:
            break
    return number, at + shift + 1


# Sheets

BATCH_ROWS = 20_000
_BIFF8_GLOBALS = b"\x09\x08\x10\x00\x00\x06\x05\x00"
_CODE_PAGE, _UTF16 = 0x0042, b"\xb0\x04"
_ERRORS = {
    "Div0": "#DIV/0!",
    "NA": "#N/A",
    "Name": "#NAME?",
    "Null": "#NULL!",
    "Num": "#NUM!",
    "Ref": "#REF!",
    "Value": "#VALUE!",
    "GettingData": "#GETTING_DATA",
}
_REFUSALS = (("password", "a workbook under a password", "a workbook without a password"),)


class Workbook:
    """An open workbook of any format that fastexcel reads."""

    def __init__(self, path: Path, kind: str) -> None:
        try:
            self._reader = fastexcel.read_excel(_with_utf16_code_page(path.read_bytes()))
        except fastexcel.FastExcelError as error:
            raise _refusal(error) from None
        self._archive = WorkbookArchive(path) if kind == "xlsb" else None
        known = {sheet.name: sheet for sheet in xlsb_sheets(self._archive)} if self._archive else {}
        self.sheets = tuple(known.get(name) or self._sheet(name) for name in self._reader.sheet_names)

    def _sheet(self, name: str) -> Sheet:
        try:
            visible = self._reader.load_sheet(name, n_rows=1, header_row=None, dtypes="string").visible
        except fastexcel.FastExcelError:
            return Sheet(name, kind="unreadable")
        return Sheet(name, visible)

    def read_cells(self, sheet: Sheet, most_cells: int) -> Iterator[CellTexts]:
        """Cells of a sheet, some rows at a time."""
        batch, errors, first_column = self._load(sheet.name, "string")
        if batch.num_rows * batch.num_columns > most_cells:
            found = f"{batch.num_rows} rows of {batch.num_columns} cells"
            raise TaskFault("file_limit", found, f"{most_cells} cells")
        if not batch.num_columns:
            return
        typed = {name: self._load(sheet.name, name)[0] for name in ("float", "duration", "datetime")}
        columns = [
            _correct_texts(column, *(typed[name].column(i) for name in ("float", "duration", "datetime")))
            for i, column in enumerate(batch.columns)
        ]
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = [column.slice(start, BATCH_ROWS) for column in columns]
            here = [error for error in errors if start <= error[0] < start + BATCH_ROWS]
            yield _as_cells(part, start, first_column, here)

    def read_areas(self, sheet: Sheet) -> list[Area]:
        """Merged areas of a sheet. Raises ``TaskFault`` for .xls and .ods, where they are unknown."""
        if self._archive is None:
            found = "merged areas of a format that does not tell them"
            raise TaskFault("file_unreadable", found, "an .xlsx or .xlsb file for `read: merged: fill`")
        return xlsb_areas(self._archive, sheet)

    def _load(
        self, name: str, dtype: fastexcel.DType
    ) -> tuple[pa.RecordBatch, list[tuple[int, int, str]], int]:
        """The sheet in one type: a batch whose row ``i`` is sheet row ``i + 1``, error cells, and its first column."""
        try:
            sheet = self._reader.load_sheet(name, header_row=None, skip_rows=0, dtypes=dtype)
            batch, errors = sheet.to_arrow_with_errors()
            places = [column.absolute_index for column in sheet.available_columns()]
        except fastexcel.FastExcelError as error:
            raise _refusal(error) from None
        found: list[tuple[int, int, str]] = []
        for wrong in errors.errors if errors is not None and dtype == "string" else ():
            code = wrong.detail.partition("Error(")[2].partition(")")[0]
            if code:
                found.append((*wrong.position, _ERRORS.get(code, f"#{code}")))
        return batch, found, places[0] if places else 0


def _with_utf16_code_page(data: bytes) -> bytes:
    """The bytes of an .xls file with the code page record set to UTF-16.

    Texts of BIFF8 are always Unicode, but the parser trusts the code page record, so that it is set to 1200, UTF-16
    (MS-XLS 2.4.52). The record is among the first of the workbook stream.
    """
    start = data.find(_BIFF8_GLOBALS) if data.startswith(b"\xd0\xcf\x11\xe0") else -1
    at = start
    end = (start // 512 + 1) * 512  # a stream is contiguous only within a sector
    while 0 <= at <= end - 6:
        kind, length = struct.unpack_from("<HH", data, at)
        if kind == _CODE_PAGE and length == 2:
            return data[: at + 4] + _UTF16 + data[at + 6 :]
        at += 4 + length
    return data


def _refusal(error: Exception) -> TaskFault:
    """A fault in our own words: the message of the parser may hold text of the file."""
    message = str(error)
    for word, found, expected in _REFUSALS:
        if word.lower() in message.lower():
            return TaskFault("file_unreadable", found, expected)
    return TaskFault("file_unreadable", "the parser refuses it", "a sound workbook")


def _correct_texts(
    texts: pa.StringArray, numbers: pa.DoubleArray, durations: pa.DurationArray, moments: pa.TimestampArray
) -> pa.StringArray:
    """Texts of one column, corrected by its numbers, durations and moments (null for other cells)."""
    dated = np.flatnonzero(durations.is_valid().to_numpy(zero_copy_only=False))
    if len(dated):
        texts = replace_texts(
            texts, dated, _dates(durations.take(pa.array(dated)), moments.take(pa.array(dated)))
        )
    has = pc.and_(numbers.is_valid(), texts.is_valid()).to_numpy(zero_copy_only=False)
    numeric = np.flatnonzero(has)
    if not len(numeric):
        return texts
    changed: dict[int, str] = {}
    shown = texts.take(pa.array(numeric)).to_pylist()
    exact = numbers.take(pa.array(numeric)).to_pylist()
    for place, text, value in zip(numeric.tolist(), shown, exact, strict=True):
        if text in ("true", "false"):
            changed[place] = text.upper()
        elif _as_number(text) != value:
            changed[place] = shortest_text(value) if np.isfinite(value) else text
        elif text == "-0":
            changed[place] = "0"
    return replace_texts(texts, np.array(list(changed), np.int64), list(changed.values()))


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _dates(durations: pa.DurationArray, moments: pa.TimestampArray) -> list[str]:
    """Dates and times as ISO 8601: a time of day without a day, else the day, with its time unless that is midnight."""
    ms = durations.cast(pa.duration("ms")).cast(pa.int64()).to_pylist()
    texts = []
    for serial, moment in zip(ms, moments.to_pylist(), strict=True):
        if moment is None or 0 < serial < DAY_MS:
            seconds, rest = divmod(serial, 1000)
            clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
            texts.append(f"{clock}.{rest:03d}" if rest else clock)
        elif serial % DAY_MS == 0:
            texts.append(moment.date().isoformat())
        else:
            texts.append(moment.isoformat(timespec="milliseconds" if serial % 1000 else "seconds"))
    return texts


def _as_cells(
    columns: list[pa.StringArray], start: int, first_column: int, errors: list[tuple[int, int, str]]
) -> CellTexts:
    """A slice of a dense sheet as cells, column after column."""
    count = len(columns[0])
    found = {(row - start, column): text for row, column, text in errors}
    for (row, column), text in found.items():
        columns[column] = replace_texts(columns[column], np.array([row]), [text])
    row_of = np.tile(np.arange(count, dtype=np.int64), len(columns))
    places = np.repeat(np.arange(first_column, first_column + len(columns), dtype=np.int32), count)
    builder = CellTextsBuilder(np.arange(start + 1, start + count + 1, dtype=np.int64), row_of, places)
    texts = string_table(pa.concat_arrays(columns))
    builder.set_texts(np.arange(len(texts)), texts, np.arange(len(texts)))
    wrong = np.array([column * count + row for row, column in found], np.int64)
    builder.mark(wrong, "cell_error", list(found.values()))
    return builder.build()
