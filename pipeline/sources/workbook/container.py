"""What kind of workbook the bytes are, whatever the file is called."""

from __future__ import annotations

import zipfile
from pathlib import Path

from pipeline.sources.sandboxed import TaskFault

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BIFF = (b"\x09\x00", b"\x09\x02", b"\x09\x04", b"\x09\x08")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_PASSWORD = ("a workbook under a password", "a workbook without a password")
_EXPECTED = "an Excel or OpenDocument workbook"


def kind(path: Path) -> str:
    """``xlsx``, ``xlsb``, ``ods`` or ``xls``.

    Raises ``TaskFault`` for anything else, saying what it is.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PK"):
        return _zipped(path)
    if head.startswith(_OLE):
        return _compound(path)
    if head.startswith(_BIFF):
        return "xls"
    raise TaskFault("file_unreadable", _other(head), _EXPECTED)


def _zipped(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.replace("\\", "/").lstrip("/").lower() for name in archive.namelist()}
            if "content.xml" in names and _under_password(archive):
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


def _under_password(archive: zipfile.ZipFile) -> bool:
    """Whether an OpenDocument says that its parts are encrypted."""
    try:
        with archive.open("META-INF/manifest.xml") as manifest:
            return b"encryption-data" in manifest.read(2**24)
    except KeyError:
        return False


def _compound(path: Path) -> str:
    """An OLE container: .xls, or a zipped workbook under a password."""
    with path.open("rb") as file:
        data = file.read(2**26)
    if _ENCRYPTED in data:
        raise TaskFault("file_unreadable", *_PASSWORD)
    return "xls"


def _other(head: bytes) -> str:
    """What bytes are that are no workbook, in words."""
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
