"""The zip archive of a workbook (ECMA-376 part 2): its format, parts, relationships, sheets and date system."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.readers.sandbox_child import TaskFault
from pipeline.readers.xlsx.xml import Attributes, attribute, parse_elements

# The format of the bytes, whatever the file is called

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BIFF = (b"\x09\x00", b"\x09\x02", b"\x09\x04", b"\x09\x08")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_PASSWORD = ("a workbook under a password", "a workbook without a password")
_EXPECTED = "an Excel or OpenDocument workbook"


def workbook_format(path: Path) -> str:
    """``xlsx``, ``xlsb``, ``ods`` or ``xls``.

    Raises ``TaskFault`` for anything else, with a description of it.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PK"):
        return _zip_format(path)
    if head.startswith(_OLE):
        return _ole_format(path)
    if head.startswith(_BIFF):
        return "xls"
    raise TaskFault("file_unreadable", _describe(head), _EXPECTED)


def _zip_format(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.replace("\\", "/").lstrip("/").lower() for name in archive.namelist()}
            if "content.xml" in names and _is_encrypted(archive):
                raise TaskFault("file_unreadable", *_PASSWORD)
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
        raise TaskFault(
            "file_unreadable", f"a broken zip archive ({type(error).__name__})", _EXPECTED
        ) from None
    if "xl/workbook.bin" in names:
        return "xlsb"
    if "content.xml" in names:
        return "ods"
    if "xl/workbook.xml" in names or "[content_types].xml" in names:
        return "xlsx"
    raise TaskFault("file_unreadable", "a zip archive that holds no workbook", _EXPECTED)


def _is_encrypted(archive: zipfile.ZipFile) -> bool:
    """Whether the manifest of an OpenDocument declares encrypted parts."""
    try:
        with archive.open("META-INF/manifest.xml") as manifest:
            return b"encryption-data" in manifest.read(2**24)
    except KeyError:
        return False


def _ole_format(path: Path) -> str:
    """``xls`` for an OLE container. Raises ``TaskFault`` if it holds a zipped workbook under a password."""
    with path.open("rb") as file:
        data = file.read(2**26)
    if _ENCRYPTED in data:
        raise TaskFault("file_unreadable", *_PASSWORD)
    return "xls"


def _describe(head: bytes) -> str:
    """What a file is that is not a workbook, by its first bytes."""
    if not head:
        return "an empty file"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:512].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<table", b"<head", b"<meta")):
        return "an HTML page"
    if start.startswith(b"<"):
        return "an XML document"
    if start.startswith(b"%pdf"):
        return "a PDF document"
    if b"\x00" not in head and sum(byte < 32 and byte not in (9, 10, 13) for byte in head) == 0:
        return "a text file (delimited text? then declare `read: format: csv`)"
    return "bytes of another kind"


# The archive; nothing is extracted to disk

CHUNK_BYTES = 4 * 2**20
MOST_PART_BYTES = 64 * 2**20
"""Most inflated bytes of a part other than sheets and shared strings."""
_READ_BYTES = 2**16
"""Bytes that are inflated at a time."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One sheet of a workbook, in the order of its tabs.

    Attributes:
        state: ``visible``, ``hidden`` or ``veryhidden``.
        kind: ``worksheet``, or a kind without cells such as ``chartsheet``.
        part: the part with its cells; "" if the format has no parts.
    """

    name: str
    state: str = "visible"
    kind: str = "worksheet"
    part: str = ""


class WorkbookArchive:
    """The open archive. Part names ignore case, as in the standard.

    Attributes:
        main: the part that lists the sheets.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as error:
            raise TaskFault(
                "file_unreadable", f"a broken archive ({type(error).__name__})", "a workbook"
            ) from None
        self._parts = {_part_key(info.filename): info for info in self._archive.infolist()}
        targets = dict(self.relationships("").values())
        self.main = targets.get("officeDocument", "xl/workbook.xml")

    def has(self, part: str) -> bool:
        """Whether the archive has the part."""
        return _part_key(part) in self._parts

    def chunks(
        self, part: str, size: int = CHUNK_BYTES, *, first: int = 0, limit: int | None = None
    ) -> Iterator[bytes]:
        """Bytes of a part, inflated lazily, in chunks of about ``size`` bytes; the first one of ``first``, if given.

        Raises ``TaskFault`` if the part is missing, damaged, encrypted, or longer than ``limit``.
        """
        chunk: list[bytes] = []
        count = 0
        for piece in self.pieces(part, limit=limit):
            chunk.append(piece)
            count += len(piece)
            if count >= (first or size):
                yield b"".join(chunk)
                first, count = 0, 0
                chunk.clear()
        if chunk:
            yield b"".join(chunk)

    def pieces(self, part: str, *, limit: int | None = None) -> Iterator[bytes]:
        """Bytes of a part, inflated lazily, in pieces of at most 64 KiB.

        Raises ``TaskFault`` as ``chunks`` does.
        """
        info = self._parts.get(_part_key(part))
        if info is None:
            raise TaskFault("file_unreadable", f"no part {part}", "a whole workbook")
        count = 0
        try:
            with self._archive.open(info) as stream:
                while piece := stream.read(_READ_BYTES):
                    yield piece
                    count += len(piece)
                    if limit is not None and count > limit:
                        raise TaskFault("file_limit", f"{part} of more than {limit} bytes", f"{limit} bytes")
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            RuntimeError,
            NotImplementedError,
        ) as error:
            found = f"{part} does not inflate ({type(error).__name__})"
            raise TaskFault("file_unreadable", found, "a sound archive") from None

    def relationships(self, part: str) -> dict[str, tuple[str, str]]:
        """Relationship id → (last word of its type, target part); of the package itself for ""."""
        folder, name = posixpath.split(part)
        rels = posixpath.join(folder, "_rels", f"{name}.rels")
        found: dict[str, tuple[str, str]] = {}
        if not self.has(rels):
            return found

        def start(element: str, attributes: Attributes) -> None:
            if element == "Relationship" and attribute(attributes, "TargetMode") != "External":
                target = attribute(attributes, "Target").replace("\\", "/")
                path = target if target.startswith("/") else posixpath.join(folder, target)
                kind = attribute(attributes, "Type").rpartition("/")[2]
                found[attribute(attributes, "Id")] = (kind, posixpath.normpath(path).lstrip("/"))

        parse_elements(rels, self.chunks(rels, limit=MOST_PART_BYTES), start)
        return found


@dataclass(frozen=True, slots=True)
class WorkbookContents:
    """The content of the main part of an XML workbook: its sheets, whether day 0 is 1904-01-01, and the parts with the
    shared strings and the styles."""

    sheets: tuple[Sheet, ...]
    date1904: bool
    shared: str
    styles: str


def read_contents(archive: WorkbookArchive) -> WorkbookContents:
    """Read the main part of an XML workbook."""
    relations = archive.relationships(archive.main)
    sheets: list[Sheet] = []
    date1904 = False

    def start(name: str, attributes: Attributes) -> None:
        nonlocal date1904
        if name == "workbookPr":  # an extension may have another one, without the date system
            date1904 |= attribute(attributes, "date1904") in ("1", "true", "on")
        elif name == "sheet":
            kind, part = relations.get(attribute(attributes, "id"), ("", ""))
            state = attribute(attributes, "state", "visible").lower()
            sheets.append(Sheet(attribute(attributes, "name"), state, kind or "worksheet", part))

    parse_elements(archive.main, archive.chunks(archive.main, limit=MOST_PART_BYTES), start)
    by_kind = dict(relations.values())
    folder = posixpath.dirname(archive.main)
    shared = by_kind.get("sharedStrings", posixpath.join(folder, "sharedStrings.xml"))
    styles = by_kind.get("styles", posixpath.join(folder, "styles.xml"))
    return WorkbookContents(tuple(sheets), date1904, shared, styles)


def _part_key(part: str) -> str:
    return part.replace("\\", "/").lstrip("/").lower()
